"""Scripted nodes as a process of a bench; started by `bench/operator_bench.py`.

Containers run until a deletion ends them, or the bench, which names a pod. The bench can also make
a node vanish, with its Node object, or give it a notice.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

import uvloop

from devcluster.access import Access
from devcluster.kubelet.kubelet import Kubelet
from devcluster.kubelet.objects import Endpoint, NodeSpec
from devcluster.kubelet.runtime import Exit
from devcluster.nodes import Machine
from devcluster.notices import Dialect
from devcluster.scripted import TERMINATED, Context, Script, Scripted

NOTICE_SECONDS = 120.0
CRASHED = Exit(1, "Error")


class Containers:
    """The containers that run, by the names of their pods."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.Event] = {}

    async def run(self, context: Context) -> Exit:
        """Run as a container until SIGTERM or a crash."""
        name = context.pod["metadata"]["name"]
        self.running[name] = context.terminated
        await context.terminated.wait()
        return TERMINATED if self.running.pop(name, None) else CRASHED

    def crash(self, name: str) -> None:
        """End a container as if its process had failed."""
        self.running.pop(name).set()


async def run(arguments: argparse.Namespace) -> None:
    access = Access(arguments.server, *arguments.files)
    containers = Containers()
    runtime = Scripted(Script(play=containers.run))
    capacity = {"pods": str(arguments.pods_per_node), "cpu": "1000", "memory": "1000Gi"}
    machines: dict[str, Machine] = {}
    # Not `Nodes`, which removes every pod at its end: the cluster of a bench ends as a whole.
    async with Kubelet(access, Endpoint("127.0.0.1", 0)) as kubelet:
        for number in range(-(-arguments.pods // arguments.pods_per_node)):
            labels = labels_of(number, arguments.zones)
            spec = NodeSpec(f"bench-{number}", labels=labels, capacity=capacity)
            machines[spec.name] = Machine(await kubelet.add_node(spec, runtime), kubelet)
        print(json.dumps({"event": "ready"}), flush=True)
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        while line := await lines.readline():
            order = json.loads(line)
            match order["do"]:
                case "crash":
                    containers.crash(order["pod"])
                case "vanish":
                    await machines[order["node"]].vanish(delete_node=True)
                case "notice":
                    await machines[order["node"]].notice(Dialect.NTH_SPOT, NOTICE_SECONDS)
            print(json.dumps({"event": order["do"]}), flush=True)


def labels_of(number: int, zones: int) -> dict[str, str]:
    """Return a cloud's labels for a spot machine in one of the zones; none without zones."""
    if not zones:
        return {}
    return {
        "node.kubernetes.io/instance-type": "g5.48xlarge",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": f"eu-west-1{'abcdef'[number % zones]}",
        "karpenter.sh/capacity-type": "spot",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("files", nargs=3, type=Path, help="of the CA, the certificate and its key")
    parser.add_argument("--pods", type=int, required=True, help="how many pods have room")
    parser.add_argument("--pods-per-node", type=int, default=250)
    parser.add_argument("--zones", type=int, default=0, help="each a pool; without: in no pool")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
