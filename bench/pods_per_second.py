"""Pods made per second, by us and by Kubernetes' own Job controller, side by side.

From the first job object that is created to the last of the pods that exist; the pods stay Pending
and are of the same template. Both controllers run all the time, the repeats alternate, and whoever
is first alternates, too. The Job controller's client may send 500 requests a second (bursts of
1,000), 25 times its default.

Run as `.venv/bin/python bench/pods_per_second.py [--quick] [--repeats 5]`.
"""

import argparse
import asyncio
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path

import uvloop

from bench.operator_bench import (
    JOBS,
    NAMESPACE,
    PODS,
    Child,
    Rig,
    cpu_seconds,
    in_parallel,
    job,
    say,
    until,
)
from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.api.names import LABEL_JOB_UID
from spotrun.kube.client import Selection
from spotrun.kube.resource import Resource

BATCH_JOBS = at("jobs", NAMESPACE, group="batch/v1")
BATCH_LABEL = "batch.kubernetes.io/job-name"
POD_RESOURCE = Resource("", "v1", "pods")
PATIENCE_SECONDS = 300
SIZES = {"200x8": (200, 8), "1x1000": (1, 1000)}
QUICK_SIZES = {"200x8": (10, 8), "1x1000": (1, 50)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="80 and 50 pods, once")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=SIZES, help="one of the shapes")
    parser.add_argument("--profile", type=Path, help="write a cProfile of the operator here")
    arguments = parser.parse_args()
    with Cluster() as cluster:
        uvloop.run(measure(cluster, arguments))


async def measure(cluster: Cluster, arguments: argparse.Namespace) -> None:
    sizes = QUICK_SIZES if arguments.quick else SIZES
    repeats = 1 if arguments.quick else arguments.repeats
    async with Rig(cluster) as rig, rig.operator() as operator:
        await operator.hear("synced")
        if not arguments.quick:
            await once(rig, 20, 8, ours=True)  # connections are opened, code is loaded
            await once(rig, 20, 8, ours=False)
        if arguments.profile:
            await operator.ask("profile")
        for shape, (jobs, pods) in sizes.items():
            if arguments.only in {None, shape}:
                await compare(rig, operator, shape, (jobs, pods), repeats)
        if arguments.profile:
            await operator.ask("dump", file=str(arguments.profile))


async def compare(
    rig: Rig, operator: Child, shape: str, sizes: tuple[int, int], repeats: int
) -> None:
    jobs, size = sizes
    seconds: dict[bool, list[float]] = {True: [], False: []}
    cpu: list[float] = []
    for repeat in range(repeats):
        for ours in (True, False) if repeat % 2 else (False, True):
            before = cpu_seconds(operator.pid)
            seconds[ours].append(await once(rig, jobs, size, ours=ours))
            if ours:
                cpu.append((cpu_seconds(operator.pid) - before) / (jobs * size) * 1e3)
    facts = {"pods": jobs * size}
    rates = {ours: [jobs * size / took for took in times] for ours, times in seconds.items()}
    say(f"pods_per_second_{shape}", rates[True], "pods/s", **facts)
    say(f"pods_per_second_job_controller_{shape}", rates[False], "pods/s", **facts)
    ratios = [a / b for a, b in zip(rates[True], rates[False], strict=True)]
    say(f"pods_vs_job_controller_{shape}", ratios, "ratio", **facts)
    say(f"operator_cpu_per_pod_{shape}", cpu, "ms", **facts, cleaning="included")


async def once(rig: Rig, jobs: int, size: int, *, ours: bool) -> float:
    """Create the jobs, wait for their pods, and clear everything away."""
    path, made, label = (JOBS, job, LABEL_JOB_UID) if ours else (BATCH_JOBS, batch_job, BATCH_LABEL)
    selection = Selection(POD_RESOURCE, NAMESPACE, label_selector=label)
    counting = asyncio.create_task(count(rig, selection, await rig.version(PODS), jobs * size))
    began = time.monotonic()
    await in_parallel(
        [partial(rig.kube.create, path, made(f"bench-{number}", size)) for number in range(jobs)]
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        seconds = await counting - began
    await clear(rig, path)
    return seconds


async def count(rig: Rig, selection: Selection, version: int, wanted: int) -> float:
    """When so many pods have appeared."""
    seen = 0
    async with aclosing(rig.lines(selection, version)) as lines:
        async for line in lines:
            seen += line.startswith(b'{"type":"ADDED"')
            if seen == wanted:
                return time.monotonic()
    raise RuntimeError("the watch of pods has ended")


async def clear(rig: Rig, path: str) -> None:
    async def gone() -> bool:
        return not (await rig.kube.get(PODS, limit="1"))["items"]

    await rig.kube.delete(path, propagation="Background")
    await until(gone, PATIENCE_SECONDS, "all pods are gone", pause_seconds=0.5)
    await asyncio.sleep(1)  # what else belonged to them is being collected


def batch_job(name: str, size: int) -> Manifest:
    container = {"name": "trainer", "image": "registry.example/train:1", "args": ["train.py"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": size, "completions": size, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    main()
