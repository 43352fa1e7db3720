"""5,000 pods of plain Jobs that complete on scripted nodes: pods/s, and the cost of the kubelet.

Run as `.venv/bin/python bench/scripted_nodes.py [--quick] [--pods 5000] [--profile FILE]`.
"""

import argparse
import asyncio
import cProfile
import json
import resource
import time
from contextlib import aclosing

from devcluster.access import Access
from devcluster.argument_types import how_many, writable_file
from devcluster.client import Client, Manifest, at
from devcluster.cluster import Cluster
from devcluster.nodes import Nodes
from devcluster.scripted import Script, Scripted

JOBS = at("jobs", "default", group="batch/v1")
PODS_PER_JOB = 100
PODS_PER_NODE = 250
QUICK_PODS = 500
TIMEOUT_SECONDS = 900


def main() -> None:
    arguments = parse_arguments()
    pods = QUICK_PODS if arguments.quick else arguments.pods
    with Cluster() as cluster:
        profile = cProfile.Profile()
        if arguments.profile:
            profile.enable()
        asyncio.run(measure(cluster.admin, pods, arguments.run_seconds))
        if arguments.profile:
            profile.disable()
            profile.dump_stats(arguments.profile)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    report("control_plane_cpu", ended.ru_utime + ended.ru_stime, "s", pods)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PODS} pods only")
    parser.add_argument("--pods", type=how_many, default=5000)
    parser.add_argument("--run-seconds", type=float, default=5, help="how long each pod runs")
    parser.add_argument(
        "--profile", type=writable_file, help="write a cProfile of the kubelet's process here"
    )
    return parser.parse_args()


async def measure(access: Access, pods: int, run_seconds: float) -> None:
    runtime = Scripted(Script(run_seconds=run_seconds))
    async with Client(access) as client, Nodes(access, runtime=runtime) as nodes:
        num_nodes = -(-pods // PODS_PER_NODE)
        capacity = {"pods": str(PODS_PER_NODE)}
        await asyncio.gather(
            *(nodes.add(f"bench-{i}", capacity=capacity) for i in range(num_nodes))
        )
        cpu_before, began = time.process_time(), time.monotonic()
        await run_jobs(client, pods)
        seconds = time.monotonic() - began
        cpu = time.process_time() - cpu_before
        report("wall", seconds, "s", pods)
        report("throughput", pods / seconds, "pods/s", pods)
        report("kubelet_cpu", cpu, "s", pods)
        report("kubelet_cpu_per_pod", cpu / pods * 1000, "ms", pods)
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report("kubelet_rss_peak", peak_kib / 1024, "MiB", pods)
        report("kubelet_writes_per_pod", nodes.num_pod_writes / pods, "writes", pods)


async def run_jobs(client: Client, pods: int) -> None:
    sizes = [PODS_PER_JOB] * (pods // PODS_PER_JOB)
    if rest := pods % PODS_PER_JOB:
        sizes.append(rest)
    awaited = {f"bench-{i}" for i in range(len(sizes))}
    for name, size in zip(sorted(awaited), sizes, strict=True):
        await client.create(JOBS, job(name, size))
    async with asyncio.timeout(TIMEOUT_SECONDS), aclosing(client.watch(JOBS)) as changes:
        async for change in changes:
            if is_complete(change.object):
                awaited.discard(change.object["metadata"]["name"])
            if not awaited:
                return


def job(name: str, size: int) -> Manifest:
    template = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "image", "command": ["train"]}],
    }
    spec = {"parallelism": size, "completions": size, "template": {"spec": template}}
    return {"metadata": {"name": name}, "spec": spec}


def is_complete(found: Manifest) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def report(metric: str, value: float, unit: str, pods: int) -> None:
    line = {"metric": f"scripted_nodes_{metric}", "value": round(value, 3), "unit": unit}
    print(json.dumps(line | {"pods": pods}), flush=True)


if __name__ == "__main__":
    main()
