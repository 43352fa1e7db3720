"""The operator at size: 10,000 workers in 500 jobs, and one job of 2,000 workers.

A real API server and etcd; scripted spot nodes of 25 workers in three zones; the agents are played
in the operator's process, without connections (`bench/long_poll.py` measures those). For each of
the two: how long it takes to start; the operator's memory, and its requests while nothing happens
and while nodes go away; the time from the moment at which a watch of nodes, independent of the
operator's, sees a node vanish (or under notice) until the next status of each job on it; how large
the stored objects and etcd are. Of the 500 jobs a new operator's first decision as well
(`bench/restart.py`), and of the one job what admission takes, and a report of each agent.

Run as `.venv/bin/python bench/scale.py [--quick] [--only fleet|one] [--jobs 500] [--workers 2000]`.
With less than 10,000 or 2,000 workers the figures have the same names; `pods` says how many.
"""

import argparse
import asyncio
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.operator_bench import Child, Rig, cpu_seconds, peak_rss_mb, percentile, rss_mb, say
from bench.reaction import idle, start
from bench.restart import UNITS, look_inside, restart
from bench.scaled import reports
from bench.scaled.nodes import disturb, quiet, tell
from bench.scaled.sizes import Traffic, admission, objects
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster

SIZE = 20
PODS_PER_NODE = 25
ZONES = 3
SPARE_NODES = 40
FLEET, ONE = "scale_10000", "scale_2000_workers"
REPORTING = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 jobs, and one of 30 workers")
    parser.add_argument("--only", choices=("fleet", "one"))
    parser.add_argument("--jobs", type=how_many, default=500)
    parser.add_argument("--workers", type=how_many, default=2000, help="of the one job")
    parser.add_argument("--nodes", type=how_many, default=10, help="as many vanish, and get notice")
    parser.add_argument("--idle-seconds", type=float, default=30)
    parser.add_argument("--settle-seconds", type=float, default=2, help="between two nodes")
    parser.add_argument("--profile", help="write cProfiles of the operator into this folder")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.jobs, arguments.workers, arguments.nodes = 3, 30, 2
        arguments.idle_seconds, arguments.settle_seconds = 1, 0.3
    parts = {"fleet": fleet, "one": one_job}
    for name, part in parts.items():
        if arguments.only in {None, name}:
            with Cluster() as cluster:
                uvloop.run(part(cluster, arguments))


@dataclass(frozen=True)
class Run:
    """A cluster with an operator, and the jobs that are to run in it."""

    rig: Rig
    nodes: Child
    operator: Child
    name: str
    jobs: int
    size: int
    settle_seconds: float

    @property
    def facts(self) -> dict[str, int]:
        """The number of jobs and pods, which each figure comes with."""
        return {"jobs": self.jobs, "pods": self.jobs * self.size}


async def fleet(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Measure many jobs."""
    jobs: int = arguments.jobs
    async with Rig(cluster) as rig, rig.nodes(room_for(jobs * SIZE), PODS_PER_NODE, ZONES) as nodes:
        async with rig.operator(plays=True) as operator:
            run = Run(rig, nodes, operator, FLEET, jobs, SIZE, arguments.settle_seconds)
            await measure(run, arguments)
            await operator.quit()
        if not arguments.quick:
            found = await restart(rig) | await look_inside(rig)
            for figure, unit in UNITS.items():
                say(f"{FLEET}_{figure}", found[figure], unit, **run.facts)


async def one_job(cluster: Cluster, arguments: argparse.Namespace) -> None:
    """Measure one large job."""
    workers: int = arguments.workers
    async with (
        Rig(cluster) as rig,
        rig.nodes(room_for(workers), PODS_PER_NODE, ZONES) as nodes,
        rig.operator(plays=True) as operator,
    ):
        run = Run(rig, nodes, operator, ONE, 1, workers, arguments.settle_seconds)
        await measure(run, arguments)
        await admission(rig, ONE, workers)
        await reports.without_connections(operator, workers)
    await reports.connections(20 if arguments.quick else REPORTING)


def room_for(pods: int) -> int:
    """Return the room of as many nodes as these pods fill, and of a few to replace others."""
    return pods + pods // 10 + SPARE_NODES * PODS_PER_NODE


async def measure(run: Run, arguments: argparse.Namespace) -> None:
    """Let the jobs begin, rest, and lose nodes."""
    profile = Profile(run, arguments.profile)
    await run.operator.hear("synced")
    traffic = Traffic(run.operator)
    await traffic.since()
    await profile.begin()
    await start(run.rig, run.jobs, 0, run.size)
    await quiet(run.rig, run.settle_seconds)
    await profile.end("start")
    await tell_start(run, traffic)
    cores = await idle(run.operator, run.jobs, arguments.idle_seconds)
    say(f"{run.name}_idle_cores", cores, "cores", **run.facts)
    await traffic.since()
    await asyncio.sleep(arguments.idle_seconds)
    await traffic.tell(f"{run.name}_idle", **run.facts)
    await profile.begin()
    await lose_nodes(run, traffic, arguments.nodes)
    await profile.end("nodes")
    await objects(run.rig, run.name, **run.facts)


async def tell_start(run: Run, traffic: Traffic) -> None:
    """Print what the start of the jobs has taken."""
    name, facts, pid = run.name, run.facts, run.operator.pid
    say(f"{name}_start_cpu_ms", 1e3 * cpu_seconds(pid) / facts["pods"], "ms per worker", **facts)
    found = await traffic.tell(f"{name}_start", **facts)
    say(f"{name}_start_decisions", found["decisions"] / run.jobs, "decisions per job", **facts)
    say(f"{name}_rss_mb", rss_mb(pid), "MB", peak=round(peak_rss_mb(pid), 1), **facts)


async def lose_nodes(run: Run, traffic: Traffic, number: int) -> None:
    """Let nodes vanish, then say that they are about to; print how soon the jobs are written."""
    times: list[float] = []
    for order in ("vanish", "notice"):
        settle = run.settle_seconds
        kills = await disturb(run.rig, run.nodes, order, number, settle_seconds=settle)
        times += tell(run.name, order, kills, **run.facts)
        await traffic.tell(f"{run.name}_{order}", **run.facts)
    p99 = percentile(times, 99)
    say(f"{run.name}_reaction_p99_ms", p99, "ms", reactions=len(times), **run.facts)


class Profile:
    """A profile of the operator, where one is asked for."""

    def __init__(self, run: Run, folder: str | None) -> None:
        self._operator = run.operator
        self._folder = folder
        self._name = f"{run.name}-{run.facts['pods']}"

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
