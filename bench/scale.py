"""The operator at size: 10,000 workers in 500 jobs, and one job of 2,000 workers.

A real API server and etcd; scripted spot nodes of 25 workers in three zones; the agents are played in the operator's
process, without connections (`bench/long_poll.py` measures those). For each of the two: how long it
takes to start; the operator's memory, and its requests while nothing happens and while nodes go
away; the time from the moment at which a watch of nodes, independent of the operator's, sees a node
vanish (or under notice) until the next status of each job on it; how large the stored objects and
etcd are. Of the 500 jobs a new operator's first decision as well (`bench/restart.py`), and of the
one job what admission takes, and a report of each agent.

Run as `.venv/bin/python bench/scale.py [--quick] [--only fleet|one] [--jobs 500] [--workers 2000]`.
With less than 10,000 or 2,000 workers the figures have the same names; `pods` says how many.
"""

import argparse
import asyncio
import time
from pathlib import Path

import uvloop

from bench.operator_bench import Child, Rig, cpu_seconds, peak_rss_mb, percentile, rss_mb, say
from bench.reaction import idle, start
from bench.restart import UNITS, look_inside, restart
from bench.scaled.nodes import disturb, quiet, tell
from bench.scaled.sizes import Traffic, admission, objects
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster

SIZE = 20
PODS_PER_NODE = 25
ZONES = 3
FLEET, ONE = "scale_10000", "scale_2000_workers"
REPORTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 jobs, and one of 30 workers")
    parser.add_argument("--only", choices=("fleet", "one"))
    parser.add_argument("--jobs", type=how_many, default=500)
    parser.add_argument("--workers", type=how_many, default=2000, help="of the one job")
    parser.add_argument("--nodes", type=how_many, default=10, help="as many vanish, and get notice")
    parser.add_argument("--idle-seconds", type=float, default=30)
    parser.add_argument("--profile", help="write cProfiles of the operator into this folder")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.workers, arguments.nodes, arguments.idle_seconds = 3, 30, 2, 1
    parts = {"fleet": fleet, "one": one_job}
    for name, part in parts.items():
        if arguments.only in {None, name}:
            with Cluster() as cluster:
                uvloop.run(part(cluster, arguments))


async def fleet(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Measure many jobs."""
    jobs: int = arguments.jobs
    async with Rig(cluster) as rig, rig.nodes(2 * jobs * SIZE, PODS_PER_NODE, ZONES) as nodes:
        async with rig.operator(plays=True) as operator:
            await measure(rig, nodes, operator, FLEET, (jobs, SIZE), arguments)
            await operator.quit()
        if not arguments.quick:
            found = await restart(rig) | await look_inside(rig)
            for figure, unit in UNITS.items():
                say(f"{FLEET}_{figure}", found[figure], unit, jobs=jobs, pods=jobs * SIZE)


async def one_job(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Measure one large job."""
    workers: int = arguments.workers
    async with (
        Rig(cluster) as rig,
        rig.nodes(2 * workers, PODS_PER_NODE, ZONES) as nodes,
        rig.operator(plays=True) as operator,
    ):
        await measure(rig, nodes, operator, ONE, (1, workers), arguments)
        await admission(rig, ONE, workers)
        await reports(operator, workers)


async def measure(
    rig: Rig,
    nodes: Child,
    operator: Child,
    name: str,
    shape: tuple[int, int],
    arguments: argparse.Namespace,
) -> None:
    """Let the jobs begin, rest, and lose nodes."""
    jobs, size = shape
    facts = {"jobs": jobs, "pods": jobs * size}
    profile = Profile(operator, arguments.profile, f"{name}-{jobs * size}")
    await operator.hear("synced")
    traffic = Traffic(operator)
    await traffic.since()
    await profile.begin()
    await start(rig, jobs, 0, size)
    await quiet(rig)
    await profile.end("start")
    cpu = cpu_seconds(operator.pid)
    say(f"{name}_start_cpu_ms", 1e3 * cpu / (jobs * size), "ms per worker", **facts)
    found = await traffic.tell(f"{name}_start", **facts)
    say(f"{name}_start_decisions", found["decisions"] / jobs, "decisions per job", **facts)
    say(f"{name}_rss_mb", rss_mb(operator.pid), "MB", peak=peak_rss_mb(operator.pid), **facts)
    cores = await idle(operator, jobs, arguments.idle_seconds)
    say(f"{name}_idle_cores", cores, "cores", **facts)
    await traffic.since()
    await asyncio.sleep(arguments.idle_seconds)
    await traffic.tell(f"{name}_idle", **facts)
    await profile.begin()
    times: list[float] = []
    for order in ("vanish", "notice"):
        times += tell(name, order, await disturb(rig, nodes, order, arguments.nodes), **facts)
        await traffic.tell(f"{name}_{order}", **facts)
    await profile.end("nodes")
    say(f"{name}_reaction_p99_ms", percentile(times, 99), "ms", **facts, reactions=len(times))
    await objects(rig, name, **facts)


async def reports(operator: Child, workers: int) -> None:
    """Print the CPU time that a report of progress takes, without its connection."""
    rounds: list[float] = []
    for _ in range(REPORTS):
        before = cpu_seconds(operator.pid)
        await operator.ask("progress")
        await asyncio.sleep(1)  # what it wakes is worked on
        rounds.append(1e6 * (cpu_seconds(operator.pid) - before) / workers)
    say(f"{ONE}_report_cpu_us", rounds, "us per report", pods=workers)


class Profile:
    """A profile of the operator, where one is asked for."""

    def __init__(self, operator: Child, folder: str | None, name: str) -> None:
        self._operator = operator
        self._folder = folder
        self._name = name

    async def begin(self) -> None:
        """Begin, or go on."""
        if self._folder is not None:
            await self._operator.ask("profile")

    async def end(self, part: str) -> None:
        """Write what was seen so far."""
        if self._folder is not None:
            file = Path(self._folder) / f"{self._name}-{part}.prof"
            await self._operator.ask("dump", file=str(file.resolve()))


if __name__ == "__main__":
    main()
