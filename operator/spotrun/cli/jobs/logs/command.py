"""`kubectl tjob logs`: which workers are read, and how their lines are printed."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import aclosing

from spotrun.api.names import Phase
from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.logs.lines import MARK, Line, drawn, merged
from spotrun.cli.jobs.logs.reading import follow, log_of
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import events_of, one_job, pods_of
from spotrun.cli.jobs.watching import states_of
from spotrun.cli.jobs.workers import members_of, worker_id_of
from spotrun.observe.kube_objects import PodObject

_MOST_AT_ONCE = 16
_OVER = (Phase.SUCCEEDED, Phase.FAILED)


def run(chosen: Namespace) -> int:
    """Print the logs that are there and, with -f, those that come."""

    async def work(cluster: Cluster) -> int:
        if chosen.follow:
            await _Follower(cluster, chosen).run()
            return DONE
        job, pods = await asyncio.gather(
            one_job(cluster, chosen.name), pods_of(cluster, chosen.name)
        )
        chosen_pods = select(job, pods, chosen.rank, is_all=chosen.all)
        if not chosen_pods:
            raise Refused(_why_none(job, pods, chosen.rank))
        await _print_once(cluster, chosen, job, chosen_pods)
        return DONE

    return ask(chosen, work)


def select(
    job: Job, pods: Sequence[PodObject], rank: int | None, *, is_all: bool
) -> dict[str, PodObject]:
    """Return the pods to read by the name that stands before their lines: their rank, or w-ID."""
    ranks = {worker_id: rank for rank, worker_id in enumerate(members_of(job))}
    named = {_name(ranks, pod): pod for pod in pods}
    if is_all:
        return dict(sorted(named.items(), key=lambda item: _order(item[0])))
    if rank is not None:
        return {name: pod for name, pod in named.items() if name == str(rank)}
    first = min(named, key=_order, default=None)
    return {first: named[first]} if first is not None else {}


def _name(ranks: dict[int, int], pod: PodObject) -> str:
    worker_id = worker_id_of(pod)
    return str(ranks[worker_id]) if worker_id in ranks else f"w{worker_id}"


def _order(name: str) -> tuple[bool, int]:
    return name.startswith("w"), int(name.lstrip("w"))


def _why_none(job: Job, pods: Sequence[PodObject], rank: int | None) -> str:
    if rank is not None and pods:
        size = len(members_of(job))
        return (
            f"there is no rank {rank}: the world has the ranks 0 to {size - 1}"
            if size
            else (
                f"there is no rank {rank}, for no world trains; --all has the logs of all workers"
            )
        )
    return (
        f"no worker has a pod, so there are no logs: the job is {job.status.phase or 'not seen'}, "
        f"{job.status.message or 'and nothing more is known'}. `kubectl tjob why "
        f"{job.metadata.name}` says more"
    )


async def _print_once(
    cluster: Cluster, chosen: Namespace, job: Job, pods: dict[str, PodObject]
) -> None:
    limit = asyncio.Semaphore(_MOST_AT_ONCE)

    async def one(pod: PodObject) -> list[str]:
        async with limit:
            return await log_of(cluster, pod, chosen.tail)

    reading = asyncio.gather(*(one(pod) for pod in pods.values()))
    events, found = await asyncio.gather(events_of(cluster, job), reading)
    logs = dict(zip(pods, found, strict=True))
    width = max(map(len, pods)) if len(pods) > 1 else 0
    lines = list(merged(logs, () if chosen.no_marks else events))
    first = min((line.time for line in lines if line.source != MARK and line.time), default="")
    for line in lines:
        if line.source != MARK or (first and line.time >= first):  # what came before is cut off
            print(drawn(line, has_times=chosen.timestamps, width=width))


class _Follower:
    """Follows the logs of a job through its worlds: workers come and go, and ranks move."""

    def __init__(self, cluster: Cluster, chosen: Namespace) -> None:
        self._cluster = cluster
        self._chosen = chosen
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by pod
        self._world = 0

    async def run(self) -> None:
        """Print until the job is over, or gone."""
        try:
            async with aclosing(states_of(self._cluster, self._chosen.name)) as states:
                async for job in states:
                    await self._look(job)
                    if job.status.phase in _OVER:
                        break
            await asyncio.gather(*self._tasks.values())
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _look(self, job: Job) -> None:
        """Mark a new world, and follow those who are to be read in it."""
        world = job.status.world
        if world is not None and world.active and world.number != self._world:
            if not self._chosen.no_marks and (self._world or world.number > 1):
                size = len(members_of(job))
                self._print(Line("", MARK, f"world {world.number}: {size} workers"))
            self._world = world.number
        elif self._tasks and any(not task.done() for task in self._tasks.values()):
            return
        pods = await pods_of(self._cluster, self._chosen.name)
        wanted = select(job, pods, self._chosen.rank, is_all=self._chosen.all)
        for name, pod in wanted.items():
            if pod.metadata.name not in self._tasks:
                tail = self._chosen.tail if not self._tasks else None
                task = asyncio.create_task(self._follow(name, pod, tail))
                self._tasks[pod.metadata.name] = task

    async def _follow(self, name: str, pod: PodObject, tail: int | None) -> None:
        async with aclosing(follow(self._cluster, pod, tail)) as lines:
            async for text in lines:
                self._print(Line("", name, text))

    def _print(self, line: Line) -> None:
        width = 3 if self._chosen.all else 0
        print(drawn(line, has_times=False, width=width))
        sys.stdout.flush()
