"""The time until a restarted operator works again, with 10,000 pods of 1,250 running jobs.

`restart_seconds`: from starting `spotrun operator` until a watch of jobs sees its first write, for
a worker that was lost while there was no operator. The previous operator ends in order, so it has
released its Lease; in one case it is killed, and the next one waits until the Lease expires.
`restart_rss_mb` is the memory of that process, without polls of agents. The other figures are of
the same operator with measurements inside (`bench/operator_child.py`): code loaded, caches full,
first decision, all decided. Nodes are scripted; the agents that bring the jobs to Running are
simulated in the first operator, and absent from the measured ones.

Run as `.venv/bin/python bench/restart.py [--quick] [--jobs 1250] [--repeats 5]`.
"""

import argparse
import asyncio
import time
from contextlib import aclosing
from statistics import fmean

import uvloop

from bench.operator_bench import (
    FIXED_WORK,
    JOBS,
    NAMESPACE,
    PODS,
    Rig,
    cpu_seconds,
    fixed_work_seconds,
    peak_rss_mb,
    phases,
    rss_mb,
    say,
    until,
)
from devcluster.argument_types import how_many
from devcluster.client import at
from devcluster.cluster import Cluster
from spotrun.api.names import LABEL_JOB
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection

SIZE = 8
START_SECONDS = 2400
DECIDE_SECONDS = 120
SETTLE_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 jobs, once")
    parser.add_argument("--jobs", type=how_many, default=1250)
    parser.add_argument("--repeats", type=how_many, default=5)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.repeats = 5, 1
    with Cluster() as cluster:
        uvloop.run(measure(cluster, arguments))


async def measure(cluster: Cluster, arguments: argparse.Namespace) -> None:
    jobs: int = arguments.jobs
    facts = {"jobs": jobs, "pods": jobs * SIZE}
    async with Rig(cluster) as rig, rig.nodes(2 * jobs * SIZE):
        await bring_to_running(rig, jobs)
        found = [await restart(rig) | await look_inside(rig) for _ in range(arguments.repeats)]
        for figure, unit in UNITS.items():
            say(figure, [one[figure] for one in found], unit, **facts)
        say("restart_cpu_ratio", [one["cpu_ratio"] for one in found], FIXED_WORK, **facts)
        if not arguments.quick:
            say("restart_after_kill_seconds", await after_kill(rig), "s", **facts, lease="15 s")


UNITS = {
    "restart_seconds": "s",
    "restart_ready_seconds": "s",
    "restart_rss_mb": "MB",
    "restart_rss_peak_mb": "MB",
    "restart_inside_loaded_seconds": "s",
    "restart_inside_synced_seconds": "s",
    "restart_inside_decided_seconds": "s",
    "restart_inside_all_decided_seconds": "s",
    "restart_inside_cpu_seconds": "s",
}


async def bring_to_running(rig: Rig, jobs: int) -> None:
    async with rig.operator(plays=True) as operator:
        await operator.hear("synced")
        began = time.monotonic()
        await rig.create_jobs((f"bench-{number}" for number in range(jobs)), SIZE)

        async def all_run() -> bool:
            return phases((await rig.kube.get(JOBS))["items"]).get("Running", 0) == jobs

        await until(all_run, START_SECONDS, f"all {jobs} jobs are Running", pause_seconds=2)
        say("jobs_started_seconds", time.monotonic() - began, "s", jobs=jobs, pods=jobs * SIZE)
        await operator.quit()


async def restart(rig: Rig) -> dict[str, float]:
    """Start the operator after the loss of a worker, and end it in order."""
    name = await lose_a_worker(rig)
    write = asyncio.create_task(first_write(rig, name, await rig.version(JOBS)))
    began = time.monotonic()
    async with rig.command() as operator:
        await until(rig.is_ready, DECIDE_SECONDS, "the operator is ready", pause_seconds=0.02)
        ready_at = time.monotonic()
        async with asyncio.timeout(DECIDE_SECONDS):
            written_at = await write
        await asyncio.sleep(SETTLE_SECONDS)
        return {
            "restart_seconds": written_at - began,
            "restart_ready_seconds": ready_at - began,
            "restart_rss_mb": rss_mb(operator.pid),
            "restart_rss_peak_mb": peak_rss_mb(operator.pid),
        }


async def look_inside(rig: Rig) -> dict[str, float]:
    """Return the same times as measured inside the operator."""
    usual = fixed_work_seconds()
    began = time.monotonic()
    async with rig.operator() as operator, asyncio.timeout(DECIDE_SECONDS):
        figures = {
            f"restart_inside_{event}_seconds": (await operator.hear(event))["at"] - began
            for event in ("loaded", "synced", "decided", "all_decided")
        }
        cpu = cpu_seconds(operator.pid)
        await operator.quit()
    ratio = cpu / fmean((usual, fixed_work_seconds()))
    return figures | {"restart_inside_cpu_seconds": cpu, "cpu_ratio": ratio}


async def lose_a_worker(rig: Rig) -> str:
    """Delete a pod while there is no operator; returns the name of its job."""
    pod = (await rig.kube.get(PODS, limit="1", fieldSelector="status.phase=Running"))["items"][0]
    await rig.kube.delete(at("pods", NAMESPACE, pod["metadata"]["name"]))
    return str(pod["metadata"]["labels"][LABEL_JOB])


async def first_write(rig: Rig, name: str, version: int) -> float:
    selection = Selection(
        Resource("spotrun.dev", "v1alpha1", "trainingjobs"),
        NAMESPACE,
        field_selector=f"metadata.name={name}",
    )
    async with aclosing(rig.lines(selection, version)) as lines:
        async for line in lines:
            if line.startswith(b'{"type":"MODIFIED"'):
                return time.monotonic()
    raise AssertionError("a watch ends with an error")


async def after_kill(rig: Rig) -> float:
    """Return the same after SIGKILL: no operator may act until the Lease has expired."""
    async with rig.operator() as operator:
        await operator.hear("decided")
        await operator.kill()
    began = time.monotonic()
    async with rig.operator() as operator:
        decided_at: float = (await operator.hear("decided"))["at"]
        await operator.quit()
    return decided_at - began


if __name__ == "__main__":
    main()
