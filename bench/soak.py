"""Hundreds of jobs live and go: what the operator keeps of them, and what is left in etcd.

Jobs come in waves, and are resized, interrupted, suspended, resumed and deleted; a steady one lives
through all of them. After each wave, when nothing is left but that job, a sample is taken: memory,
descriptors, tasks and queues of the operator, its objects by type, the keys in etcd (Events left
out, which end by themselves), and the length of the steady job's status.

`soak_rss_slope_mb_per_1000_jobs` is the median slope of the memory after the first waves. With each
sample are printed the results that `functools.lru_cache` keeps (`cached`): they grow up to a limit.
`soak_leaks` counts what grew with the jobs: a type of which there is one object more, or whose
containers have one entry more, for every tenth job; a descriptor, task or queued key more for every
hundredth; a key in etcd; and a status that got a quarter longer. Pods run on scripted nodes. Agents
are played inside the operator (`bench/operator_child.py`), so their connections are not in it.

Run as `.venv/bin/python bench/soak.py [--quick] [--jobs 600] [--wave 30]`.
"""

import argparse
import asyncio
import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.operator_bench import Child, Rig, rss_mb, say, until
from bench.soaking.census import CACHED, Census, growth_per_job, slope
from bench.soaking.etcd import ask
from bench.soaking.waves import GROWN, STEADY, create, status_of, wave
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster

_WARM = 1 / 3
"""The share of waves in which caches, pools of memory and code still fill."""
_OBJECTS_PER_JOB, _FEW_PER_JOB = 0.1, 0.01
_STATUS_GROWTH = 1.25
_REST_SECONDS = 60.0
_KOPF_SECONDS = 6.0
"""kopf keeps a task for each object until it has heard nothing of it for five seconds."""
_MOST_SHOWN = 8


@dataclass(frozen=True)
class Sample:
    """The state of all that may grow, while there is nothing to do."""

    jobs: int  # that were made and deleted by then
    rss_mb: float
    heap: dict[str, float]  # of it, what the C library has in use, and what it keeps
    descriptors: int
    counts: Census
    etcd_keys: int
    status_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 jobs in 2 waves")
    parser.add_argument("--jobs", type=how_many, default=600)
    parser.add_argument("--wave", type=how_many, default=30, help="jobs at once")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.wave = 4, 2
    with Cluster() as cluster:
        uvloop.run(measure(cluster, arguments.jobs, arguments.wave))


async def measure(cluster: Cluster, jobs: int, size: int) -> None:
    began, samples = time.monotonic(), list[Sample]()
    async with (
        Rig(cluster) as rig,
        rig.nodes(2 * GROWN * (size + 1)),
        rig.operator(plays=True) as operator,
    ):
        await operator.hear("synced")
        await create(rig, [STEADY])
        for first in range(0, jobs, size):
            await wave(rig, [f"soak-{number}" for number in range(first, first + size)])
            samples.append(await sample(rig, operator, first + size))
            last = samples[-1]
            facts = {"heap": last.heap, "cached": last.counts.get(CACHED, 0)}
            say("soak_rss_mb", last.rss_mb, "MB", jobs=last.jobs, **facts)
    tell(samples, time.monotonic() - began)


async def sample(rig: Rig, operator: Child, jobs: int) -> Sample:
    """Wait until the operator has nothing to do, and count."""

    async def rests() -> bool:
        return int((await operator.ask("census"))["counts"]["queued"]) == 0

    await asyncio.sleep(_KOPF_SECONDS)
    await until(rests, _REST_SECONDS, "the operator has nothing to do", pause_seconds=1)
    answer = await operator.ask("census")
    status = await status_of(rig, STEADY)
    return Sample(
        jobs,
        rss_mb(operator.pid),
        {name: round(mb, 1) for name, mb in (answer["heap"] or {}).items()},
        descriptors(operator.pid),
        answer["counts"],
        await asyncio.to_thread(etcd_keys, rig.cluster),
        len(json.dumps(status, separators=(",", ":"))),
    )


def tell(samples: Sequence[Sample], seconds: float) -> None:
    """Print the figures, and what has grown."""
    warm = samples[int(len(samples) * _WARM) :]
    jobs = samples[-1].jobs
    points = [(float(one.jobs), one.rss_mb) for one in warm]
    steepness = slope(points) * 1000 if len(points) > 1 else 0.0
    facts = {"jobs": jobs, "samples": len(warm), "seconds": round(seconds)}
    exact = round(steepness, 2)  # below zero where pages were given back
    say("soak_rss_slope_mb_per_1000_jobs", max(0.0, steepness), "MB", exact=exact, **facts)
    found = leaks(warm[0], warm[-1])
    say("soak_leaks", len(found), "kinds", found=found[:_MOST_SHOWN], **facts)


def leaks(first: Sample, last: Sample) -> list[str]:
    """Return what has grown with the number of jobs, the fastest first."""
    jobs = last.jobs - first.jobs
    if not jobs:
        return []
    grown = growth_per_job(first.counts, last.counts, jobs)
    found = [
        f"{name}: {rate:.2f} a job"
        for name, rate in grown.items()
        if name != CACHED
        and rate >= (_FEW_PER_JOB if name in {"tasks", "queued"} else _OBJECTS_PER_JOB)
    ]
    if last.descriptors - first.descriptors >= _FEW_PER_JOB * jobs:
        found.append(f"descriptors: {first.descriptors}, then {last.descriptors}")
    if last.etcd_keys > first.etcd_keys:
        found.append(f"keys in etcd: {first.etcd_keys}, then {last.etcd_keys}")
    if last.status_bytes > _STATUS_GROWTH * first.status_bytes:
        found.append(f"bytes of a status: {first.status_bytes}, then {last.status_bytes}")
    return found


def descriptors(pid: int) -> int:
    """Count the open files and connections of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def etcd_keys(cluster: Cluster) -> int:
    """Count the keys in etcd, Events left out."""
    return _count(cluster, "/registry/", "/registry0") - _count(
        cluster, "/registry/events/", "/registry/events0"
    )


def _count(cluster: Cluster, first: str, end: str) -> int:
    body = {
        "key": base64.b64encode(first.encode()).decode(),
        "range_end": base64.b64encode(end.encode()).decode(),
        "count_only": True,
    }
    return int(ask(cluster, "kv/range", body).get("count", 0))


if __name__ == "__main__":
    main()
