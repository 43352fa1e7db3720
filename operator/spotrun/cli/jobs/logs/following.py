"""The logs of a job's workers: those written so far, and new lines. Prints nothing."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from spotrun.api.names import Phase
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.logs.lines import MARK, Line, merged
from spotrun.cli.jobs.logs.reading import follow, log_of
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import events_of, one_job, pods_of
from spotrun.cli.jobs.watching import states_of
from spotrun.cli.jobs.workers import members_of, worker_id_of
from spotrun.observe.kube_objects import PodObject

_MOST_AT_ONCE = 16
_MOST_WAITING = 1000
_OVER = (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True)
class Wanted:
    """The requested logs: of rank 0, of another rank, or of all workers."""

    rank: int | None = None
    is_all: bool = False
    tail: int | None = None
    has_marks: bool = True


@dataclass(frozen=True)
class Logs:
    """The lines of some workers in the order of their times."""

    lines: tuple[Line, ...]
    sources: tuple[str, ...]


async def logs_of(cluster: Cluster, name: str, wanted: Wanted) -> Logs:
    """Read the logs written so far; raises Refused that says why there are none."""
    job, pods = await asyncio.gather(one_job(cluster, name), pods_of(cluster, name))
    chosen = select(job, pods, wanted.rank, is_all=wanted.is_all)
    if not chosen:
        raise Refused(_why_none(job, pods, wanted.rank))
    limit = asyncio.Semaphore(_MOST_AT_ONCE)

    async def one(pod: PodObject) -> list[str]:
        async with limit:
            return await log_of(cluster, pod, wanted.tail)

    reading = asyncio.gather(*(one(pod) for pod in chosen.values()))
    events, found = await asyncio.gather(events_of(cluster, job), reading)
    logs = dict(zip(chosen, found, strict=True))
    lines = list(merged(logs, events if wanted.has_marks else ()))
    first = min((line.time for line in lines if line.source != MARK and line.time), default="")
    # Leave out marks from before the first line.
    kept = (line for line in lines if line.source != MARK or (first and line.time >= first))
    return Logs(tuple(kept), tuple(chosen))


async def lines_of(
    cluster: Cluster, name: str, wanted: Wanted, away: Callable[[], None] = lambda: None
) -> AsyncGenerator[Line, None]:
    """Yield lines as they are written, until the job is over or deleted.

    `away` is called when the cluster stops answering.
    """
    queue: asyncio.Queue[Line | None] = asyncio.Queue(_MOST_WAITING)

    async def run() -> None:
        try:
            await _Follower(cluster, name, wanted, queue).run(away)
        except Exception:
            await queue.put(None)
            raise
        await queue.put(None)  # not after a cancellation: the queue may be full, and is not read

    following = asyncio.create_task(run())
    try:
        while (line := await queue.get()) is not None:
            yield line
        await following  # raises its error, if it has one
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def select(
    job: Job, pods: Sequence[PodObject], rank: int | None, *, is_all: bool
) -> dict[str, PodObject]:
    """Return the pods to read by the prefix of their lines: the rank, or w and the worker's ID."""
    ranks = {worker_id: rank for rank, worker_id in enumerate(members_of(job))}
    named = {_name(ranks, pod): pod for pod in pods}
    if is_all:
        return dict(sorted(named.items(), key=lambda item: _order(item[0])))
    if rank is not None:
        return {name: pod for name, pod in named.items() if name == str(rank)}
    first = min(named, key=_order, default=None)
    return {first: named[first]} if first is not None else {}


def the_pod(job: Job, pods: Sequence[PodObject], rank: int) -> PodObject:
    """Return the pod of a rank; raises Refused if there is none."""
    found = select(job, pods, rank, is_all=False)
    if not found:
        raise Refused(_why_none(job, pods, rank))
    return next(iter(found.values()))


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
            else (f"there is no rank {rank}: no world trains; --all shows the logs of all workers")
        )
    return (
        f"no worker has a pod, so there are no logs: the job is {job.status.phase or 'not seen'}, "
        f"{job.status.message or 'and nothing more is known'}. `kubectl tjob why "
        f"{job.metadata.name}` says more"
    )


class _Follower:
    """Follows the logs of a job through its worlds: workers and their ranks change."""

    def __init__(
        self, cluster: Cluster, name: str, wanted: Wanted, queue: asyncio.Queue[Line | None]
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._wanted = wanted
        self._queue = queue
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by pod
        self._world = 0

    async def run(self, away: Callable[[], None]) -> None:
        """Queue lines until the job is over, or deleted."""
        try:
            async with aclosing(states_of(self._cluster, self._name, away=away)) as states:
                async for job in states:
                    await self._look(job)
                    if job.status.phase in _OVER:
                        break
            await asyncio.gather(*self._tasks.values())
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _look(self, job: Job) -> None:
        """Mark a new world, and follow the workers whose logs are wanted in it."""
        world = job.status.world
        if world is not None and world.active and world.number != self._world:
            if self._wanted.has_marks and (self._world or world.number > 1):
                size = len(members_of(job))
                await self._queue.put(Line("", MARK, f"world {world.number}: {size} workers"))
            self._world = world.number
        elif self._tasks and any(not task.done() for task in self._tasks.values()):
            return
        pods = await pods_of(self._cluster, self._name)
        wanted = select(job, pods, self._wanted.rank, is_all=self._wanted.is_all)
        for name, pod in wanted.items():
            if pod.metadata.name not in self._tasks:
                tail = self._wanted.tail if not self._tasks else None
                task = asyncio.create_task(self._follow(name, pod, tail))
                self._tasks[pod.metadata.name] = task

    async def _follow(self, name: str, pod: PodObject, tail: int | None) -> None:
        async with aclosing(follow(self._cluster, pod, tail)) as lines:
            async for text in lines:
                await self._queue.put(Line("", name, text))
