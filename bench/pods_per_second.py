"""Pods made per second, by us and by Kubernetes' own Job controller, side by side.

From the first job object that is created to the last of the pods that exist; the pods are of the
same template. Both controllers run all the time, the repeats alternate, and whoever is first
alternates, too. The Job controller's client may send 500 requests a second (bursts of 1,000), 25
times its default. Nothing schedules: without nodes a scheduler would only say so of each pod, and
jobs of ours that stand in line for nodes would give pods back while those of others are made.

With `--equal-pods` the Job controller is given a pod of ours as its template, with all that we add.
What is left between the two is the work of the controllers, without that of larger pods.

Run as `.venv/bin/python bench/pods_per_second.py [--quick] [--repeats 5] [--equal-pods]`.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

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
from devcluster.argument_types import how_many, writable_file
from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.api.names import LABEL_JOB_UID
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection

BATCH_JOBS = at("jobs", NAMESPACE, group="batch/v1")
BATCH_LABEL = "batch.kubernetes.io/job-name"
POD_RESOURCE = Resource("", "v1", "pods")
PATIENCE_SECONDS = 300
CONTAINER = {"name": "trainer", "image": "registry.example/train:1", "args": ["train.py"]}
SMALL: Manifest = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
"""The pod of a Job that has what a user writes in a TrainingJob, and no more."""
Body = Callable[[str, int], Manifest]
SIZES = {"200x8": (200, 8), "1x1000": (1, 1000)}
QUICK_SIZES = {"200x8": (10, 8), "1x1000": (1, 50)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="80 and 50 pods, once")
    parser.add_argument("--repeats", type=how_many, default=5)
    parser.add_argument("--only", choices=SIZES, help="one of the shapes")
    parser.add_argument("--equal-pods", action="store_true", help="see above")
    parser.add_argument(
        "--profile", type=writable_file, help="write a cProfile of the operator here"
    )
    arguments = parser.parse_args()
    with Cluster() as cluster:
        uvloop.run(measure(cluster, arguments))


async def measure(cluster: Cluster, arguments: argparse.Namespace) -> None:
    sizes = QUICK_SIZES if arguments.quick else SIZES
    repeats = 1 if arguments.quick else arguments.repeats
    cluster.control.kill("kube-scheduler")
    async with Rig(cluster) as rig, rig.operator() as operator:
        await operator.hear("synced")
        template = await pod_of_ours(rig) if arguments.equal_pods else SMALL
        theirs = partial(batch_job, template=template)
        if not arguments.quick:
            for body in (job, theirs):  # connections are opened, code is loaded
                await once(rig, operator, 20, 8, body)
        if arguments.profile:
            await operator.ask("profile")
        for shape, (jobs, pods) in sizes.items():
            if arguments.only in {None, shape}:
                await compare(rig, operator, shape, (jobs, pods), repeats, theirs=theirs)
        if arguments.profile:
            await operator.ask("dump", file=str(arguments.profile))


@dataclass(frozen=True)
class Made:
    """The time and CPU that it took to make the pods of one repeat."""

    seconds: float
    controller_cpu: float  # of the operator, or of the controller manager
    server_cpu: float  # of API server and etcd


async def compare(
    rig: Rig, operator: Child, shape: str, sizes: tuple[int, int], repeats: int, *, theirs: Body
) -> None:
    jobs, size = sizes
    made: dict[bool, list[Made]] = {True: [], False: []}
    for repeat in range(repeats):
        for ours in (True, False) if repeat % 2 else (False, True):
            made[ours].append(await once(rig, operator, jobs, size, job if ours else theirs))
    pods = jobs * size
    rates = {ours: [pods / one.seconds for one in all_of] for ours, all_of in made.items()}
    ratios = [a / b for a, b in zip(rates[True], rates[False], strict=True)]
    say(f"pods_vs_job_controller_{shape}", ratios, "ratio", pods=pods)
    for ours, name in ((True, "spotrun"), (False, "job_controller")):
        controller = [1e3 * one.controller_cpu / pods for one in made[ours]]
        server = [1e3 * one.server_cpu / pods for one in made[ours]]
        facts = {"pods": pods, "controller": name}
        say(f"pods_per_second_{name}_{shape}", rates[ours], "pods/s", **facts)
        say(f"pod_controller_cpu_{name}_{shape}", controller, "ms per pod", **facts)
        say(f"pod_server_cpu_{name}_{shape}", server, "ms per pod", **facts)


async def once(rig: Rig, operator: Child, jobs: int, size: int, body: Body) -> Made:
    """Create the jobs, wait for their pods, and clear everything away."""
    ours = body is job
    path, label = (JOBS, LABEL_JOB_UID) if ours else (BATCH_JOBS, BATCH_LABEL)
    pids = rig.cluster.control.pids()
    controller = operator.pid if ours else pids["kube-controller-manager"]
    servers = (pids["kube-apiserver"], pids["etcd"])
    selection = Selection(POD_RESOURCE, NAMESPACE, label_selector=label)
    counting = asyncio.create_task(count(rig, selection, await rig.version(PODS), jobs * size))
    cpu, server_cpu = cpu_seconds(controller), sum(map(cpu_seconds, servers))
    began = time.monotonic()
    bodies = [body(f"bench-{number}", size) for number in range(jobs)]
    await in_parallel([partial(rig.kube.create, path, one) for one in bodies])
    async with asyncio.timeout(PATIENCE_SECONDS):
        seconds = await counting - began
    made = Made(seconds, cpu_seconds(controller) - cpu, sum(map(cpu_seconds, servers)) - server_cpu)
    await clear(rig, path)
    return made


async def count(rig: Rig, selection: Selection, version: int, wanted: int) -> float:
    """Return the time at which so many pods have appeared."""
    seen = 0
    async with aclosing(rig.lines(selection, version)) as lines:
        async for line in lines:
            seen += line.startswith(b'{"type":"ADDED"')
            if seen == wanted:
                return time.monotonic()
    raise AssertionError("a watch ends with an error")


async def clear(rig: Rig, path: str) -> None:
    async def gone() -> bool:
        return not (await rig.kube.get(PODS, limit="1"))["items"]

    await rig.kube.delete(path, propagation="Background")
    await until(gone, PATIENCE_SECONDS, "all pods are gone", pause_seconds=0.5)
    await asyncio.sleep(1)  # what else belonged to them is being collected


async def pod_of_ours(rig: Rig) -> Manifest:
    """Return a pod that the operator makes, as a template for a Job."""
    await rig.kube.create(JOBS, job("template", 1))
    found: list[Manifest] = []

    async def is_there() -> bool:
        found[:] = await rig.kube.list(PODS)
        return bool(found)

    await until(is_there, PATIENCE_SECONDS, "a pod is made")
    await clear(rig, JOBS)
    meta, spec = found[0]["metadata"], found[0]["spec"]
    # Of the same length, but none of those that the operator follows.
    labels = {key.replace("spotrun.dev", "example.dev"): one for key, one in meta["labels"].items()}
    return {"metadata": {"labels": labels, "annotations": meta["annotations"]}, "spec": spec}


def batch_job(name: str, size: int, template: Manifest) -> Manifest:
    spec = {"parallelism": size, "completions": size, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    main()
