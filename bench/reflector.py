"""The cost of following pods: CPU per event, and the first list of 10,000, on a real API server.

The follower is a separate process, so that its memory and CPU are those of a reflector alone.
`live`: events come one by one, as they happen; `burst`: all of them at once, after a gap.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from typing_extensions import override

from devcluster.cluster import Cluster
from spotrun.kube.resource import Meta, Resource
from spotrun.kube.rest.access import Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.rest.transport import Transport
from spotrun.kube.watch.reflector import Reflector

PODS = Resource("", "v1", "pods")
SELECTION = Selection(PODS, "default", label_selector="bench=yes")
WRITERS = 32


class PodMeta(Meta, frozen=True, rename="camel"):
    """The metadata that an operator uses."""

    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    pod_ip: str | None = None
    reason: str = ""
    conditions: tuple[Condition, ...] = ()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class Pod(msgspec.Struct, frozen=True):
    metadata: PodMeta
    spec: PodSpec
    status: PodStatus


class GatedClient(Client):
    """Lists at once, but watches only when told to."""

    def __init__(self, transport: Transport, *, burst: bool) -> None:
        super().__init__(transport, field_manager="bench")
        self.gate = asyncio.Event()
        if not burst:
            self.gate.set()

    @override
    async def watch(
        self, selection: Selection, *, version: int, seconds: float, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        await self.gate.wait()
        stream = super().watch(
            selection, version=version, seconds=seconds, silence_seconds=silence_seconds
        )
        async for lines in stream:
            yield lines


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def follow(kubeconfig: Path, events: int, *, burst: bool) -> None:
    """Run the child: list, report, wait for a line on stdin, follow some events, report."""
    seen = 0
    over = asyncio.Event()

    def handle(old: Pod | None, _: Pod | None) -> None:
        nonlocal seen
        seen += old is not None
        if seen == events:
            over.set()

    async with Transport(Credentials(from_kubeconfig(kubeconfig))) as transport:
        client = GatedClient(transport, burst=burst)
        reflector = Reflector(client, SELECTION, Pod, handle)
        say(rss_mb=rss_mb())
        began, cpu = time.monotonic(), time.process_time()
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        listed = time.monotonic() - began, time.process_time() - cpu
        say(seconds=listed[0], cpu_seconds=listed[1], pods=len(reflector.store), rss_mb=rss_mb())
        cpu = time.process_time()
        if burst:
            await asyncio.to_thread(sys.stdin.readline)
            cpu = time.process_time()
            client.gate.set()
        await over.wait()
        say(cpu_seconds=time.process_time() - cpu, events=seen, rss_mb=rss_mb())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pod(number: int) -> dict[str, Any]:
    """Return a pod of about 5 kB as JSON, like a worker's; no scheduler handles it."""
    env = [{"name": f"VARIABLE_{i}", "value": "a value of some length" * 2} for i in range(30)]
    container = {"name": "trainer", "image": "registry.example/image:tag", "env": env}
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"bench": "yes"}},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


async def in_parallel(client: Client, total: int, *, change: int | None) -> None:
    """Create all pods, or change a label of each."""
    numbers = iter(range(total))

    async def write() -> None:
        for number in numbers:
            if change is None:
                await client.create(PODS, pod(number), Pod, namespace="default")
            else:
                patch = {"metadata": {"labels": {"change": str(change)}}}
                await client.patch(PODS, f"pod-{number}", patch, Pod, namespace="default")

    await asyncio.gather(*(write() for _ in range(WRITERS)))


async def measure(cluster: Cluster, pods: int, events: int) -> None:
    async with Transport(Credentials(from_kubeconfig(cluster.kubeconfig))) as transport:
        client = Client(transport, field_manager="bench")
        await in_parallel(client, pods, change=None)
        one = await client.get(PODS, "pod-0", msgspec.Raw, namespace="default")
        for change, mode in enumerate(("live", "burst")):
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, __file__, "--follow", str(cluster.kubeconfig)),
                *("--events", str(events), "--mode", mode),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert child.stdin is not None
            assert child.stdout is not None
            before, listed = [json.loads(await child.stdout.readline()) for _ in range(2)]
            await in_parallel(client, events, change=change)
            child.stdin.write(b"go\n")
            after = json.loads(await child.stdout.readline())
            await child.wait()
            micros = after["cpu_seconds"] / after["events"] * 1e6
            say(metric=f"reflector_event_cpu_{mode}", value=round(micros, 1), unit="us")
    assert listed["pods"] == pods
    facts = {"pods": pods, "pod_bytes": len(bytes(one))}
    say(metric="reflector_list_seconds", value=round(listed["seconds"], 2), unit="s", **facts)
    say(metric="reflector_list_cpu", value=round(listed["cpu_seconds"], 2), unit="s", **facts)
    say(metric="reflector_rss_before", value=round(before["rss_mb"]), unit="MB")
    say(metric="reflector_rss_listed", value=round(listed["rss_mb"]), unit="MB", **facts)


def main() -> None:
    """Print one JSON line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 pods instead of 10,000")
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.follow is not None:
        burst = arguments.mode == "burst"
        uvloop.run(follow(arguments.follow, arguments.events, burst=burst))
        return
    pods, events = (1_000, 500) if arguments.quick else (10_000, 5_000)
    with Cluster() as cluster:
        uvloop.run(measure(cluster, pods, events))


if __name__ == "__main__":
    main()
