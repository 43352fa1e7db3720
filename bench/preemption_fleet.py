"""A fleet of nodes and training jobs in simulated time, with one of several ways to share it.

In all ways, jobs are placed, grow and save in the same way, and a job that cannot be placed blocks
those behind it. The only difference is what happens when a job of the high class finds no room.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from bench.preemption_jobs import Job, Plan, gpus_of, victim_of
from spotrun.policies.placement.queueing.preemption import SUSPENDED, Claim, preempt

NODE_GPUS = 8
END_SECONDS = 2.0  # from a worker's signal until its node is free
GRACE_SECONDS = 30.0  # terminationGracePeriodSeconds, if a pod sets none
GROW_AFTER_SECONDS = 60.0  # a job keeps a changed size for at least this time


class Sharing(Enum):
    """The ways to share a fleet."""

    FIFO = "fifo"
    """The oldest job comes first, and no job is preempted."""
    PLAIN = "plain"
    """The priority decides; whole jobs of the lowest priority are killed, the newest first, until
    there is room; jobs that turn out not to be needed are spared. kube-scheduler and Kueue do the
    same. Killed jobs end at once, which is the best case for this way."""
    PLAIN_WITH_GRACE = "plain_grace"
    """The same, but killed jobs end only after Kubernetes' default grace period, like a Python
    process that is the first one of a container and does not handle SIGTERM."""
    CHEAPEST = "cheapest"
    """The priority decides; the operator's policy chooses jobs, which save first."""


@dataclass(frozen=True)
class Outcome:
    """The figures of one run, in GPU-seconds and seconds."""

    wasted: float
    held: float
    high_waited: tuple[float, ...]
    low_waited: tuple[float, ...]
    preempted: int
    ends_at: float


class Fleet:
    """One run."""

    def __init__(self, nodes: int, plans: Sequence[Plan], sharing: Sharing) -> None:
        self._free = [NODE_GPUS] * nodes
        self._sharing = sharing
        self._jobs = [Job(plan) for plan in plans]
        self._queue: list[Job] = []
        self._running: list[Job] = []
        self._vacating = 0  # workers whose nodes will be free for the first job in the queue
        self._events: list[tuple[float, int, str, Job, int]] = []
        self._count = 0
        self._preempted = 0

    def run(self) -> Outcome:
        """Run until all jobs have ended."""
        now = 0.0
        for job in self._jobs:
            self._at(job.plan.arrives, "arrives", job)
        while self._events:
            now, _, what, job, version = heapq.heappop(self._events)
            if what == "ends" and version != job.version:
                continue
            self._happens(now, what, job, version)
            self._schedule(now)
        assert not self._queue, "all jobs begin"
        assert not self._running, "all jobs end"
        waits: dict[bool, list[float]] = {True: [], False: []}
        for job in self._jobs:
            waits[job.plan.priority > 0].append(job.waited)
        wasted, held = sum(j.wasted for j in self._jobs), sum(j.held for j in self._jobs)
        high, low = tuple(waits[True]), tuple(waits[False])
        return Outcome(wasted, held, high, low, self._preempted, now)

    def _happens(self, now: float, what: str, job: Job, number: int) -> None:
        if what == "arrives":
            job.queued_at = now
            self._queue.append(job)
        elif what == "vacates":
            self._vacate(now, job, number)
        elif what == "ends":
            job.advance(now)
            self._vacating -= job.leaving
            job.leaving = 0
            self._release(job, len(job.nodes))
            self._running.remove(job)

    def _schedule(self, now: float) -> None:
        by_age = self._sharing is Sharing.FIFO
        self._queue.sort(key=lambda j: (0 if by_age else -j.plan.priority, j.plan.arrives))
        while self._queue:
            job = self._queue[0]
            if self._vacating or job.nodes or not self._start(now, job):
                break
            self._queue.pop(0)
        if not self._queue:
            self._grow(now)
        elif not self._vacating and self._queue[0].plan.priority and not by_age:
            self._preempt(now, self._queue[0])

    def _start(self, now: float, job: Job) -> bool:
        """Place as many workers as fit, if these are enough."""
        nodes = self._room(job.plan.gpus, job.plan.most)
        if len(nodes) < job.plan.least:
            return False
        job.advance(now)
        self._take(job, nodes)
        job.waited += now - job.queued_at
        job.placed_at = job.changed_at = now
        self._running.append(job)
        if job.has_begun:
            job.stall(now, job.plan.restart_seconds)
        job.has_begun = True
        self._plan_end(job)
        return True

    def _grow(self, now: float) -> None:
        for job in sorted(self._running, key=lambda j: (-j.plan.priority, j.plan.arrives)):
            more = job.plan.most - len(job.nodes)
            if job.leaving or more <= 0:
                continue
            nodes = self._room(job.plan.gpus, more)
            at = max(job.changed_at + GROW_AFTER_SECONDS, job.stalls_until)
            if nodes and now < at:
                if job.grows_at < at:
                    job.grows_at = at
                    self._at(at, "grows", job)
            elif nodes:
                job.advance(now)
                self._take(job, nodes)
                job.changed_at = now
                job.stall(now, job.change_seconds)
                self._plan_end(job)

    def _preempt(self, now: float, job: Job) -> None:
        victims = [one for one in self._running if one.plan.priority < job.plan.priority]
        for one in victims:
            one.advance(now)
        if self._sharing is not Sharing.CHEAPEST:
            for one in self._newest_that_suffice(job, victims):
                self._kill(now, one)
            return
        prices = [victim_of(one) for one in victims]
        free = {str(node): gpus_of(number) for node, number in enumerate(self._free)}
        missing = job.plan.least - len(self._room(job.plan.gpus, job.plan.least))
        sizes = preempt(Claim(missing, gpus_of(job.plan.gpus), free), prices).sizes
        for one in victims:
            if (size := sizes.get(one.plan.name)) == SUSPENDED:
                self._suspend(now, one)
            elif size is not None:
                self._shrink(now, one, size)

    def _newest_that_suffice(self, job: Job, victims: Sequence[Job]) -> Iterator[Job]:
        order = sorted(victims, key=lambda j: (j.plan.priority, -(j.placed_at or 0.0)))
        taken: list[Job] = []
        for one in order:
            if self._would_fit(job, taken):
                break
            taken.append(one)
        if not self._would_fit(job, taken):
            return
        for one in reversed(taken):
            others = [other for other in taken if other is not one]
            if self._would_fit(job, others):
                taken = others
        yield from taken

    def _would_fit(self, job: Job, without: Sequence[Job]) -> bool:
        free = list(self._free)
        for one in without:
            for node in one.nodes:
                free[node] += one.plan.gpus
        return sum(number // job.plan.gpus for number in free) >= job.plan.least

    def _kill(self, now: float, job: Job) -> None:
        job.wasted += job.unsaved_work * job.plan.gpus
        job.done -= job.unsaved_work
        job.save()
        with_grace = self._sharing is Sharing.PLAIN_WITH_GRACE
        self._leave(now, job, len(job.nodes), 0.0, GRACE_SECONDS if with_grace else END_SECONDS)

    def _suspend(self, now: float, job: Job) -> None:
        seconds = job.plan.save_seconds if job.unsaved_seconds else 0.0
        job.save()
        self._leave(now, job, len(job.nodes), seconds)

    def _shrink(self, now: float, job: Job, size: int) -> None:
        """Continue with fewer workers: in the same processes, or from a checkpoint saved first."""
        seconds = job.change_seconds
        if job.plan.changes_in_process:
            self._leave(now, job, len(job.nodes) - size, seconds)
        else:
            self._leave(now, job, len(job.nodes) - size, job.plan.save_seconds)
            seconds += job.plan.save_seconds
            job.save()
        job.changed_at = now
        job.stall(now, seconds)
        self._plan_end(job)

    def _leave(
        self, now: float, job: Job, workers: int, seconds: float, end: float = END_SECONDS
    ) -> None:
        """Free the nodes of the newest workers after some time, in which they do not train."""
        self._preempted += 1
        job.waste(seconds + end, workers)
        job.version += 1
        job.leaving = workers
        self._vacating += workers
        self._at(now + seconds + end, "vacates", job, workers)

    def _vacate(self, now: float, job: Job, workers: int) -> None:
        if not job.leaving:
            return  # it has ended in the meantime
        job.advance(now)
        self._vacating -= workers
        self._release(job, workers)
        job.leaving = 0
        if not job.nodes:
            self._running.remove(job)
            job.queued_at = now
            self._queue.append(job)

    def _room(self, gpus: int, most: int) -> list[int]:
        """Return nodes for this many workers, the fullest first; fewer if there are no more."""
        found: list[int] = []
        for node in sorted(range(len(self._free)), key=lambda n: (self._free[n], n)):
            found += [node] * (self._free[node] // gpus)
            if len(found) >= most:
                break
        return found[:most]

    def _take(self, job: Job, nodes: Sequence[int]) -> None:
        job.nodes += nodes
        for node in nodes:
            self._free[node] -= job.plan.gpus

    def _release(self, job: Job, workers: int) -> None:
        first = len(job.nodes) - workers
        for node in job.nodes[first:]:
            self._free[node] += job.plan.gpus
        del job.nodes[first:]

    def _plan_end(self, job: Job) -> None:
        job.version += 1
        self._at(job.ends_at(), "ends", job, job.version)

    def _at(self, time: float, what: str, job: Job, number: int = 0) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, what, job, number))


def outcomes(nodes: int, plans: Sequence[Plan]) -> Mapping[Sharing, Outcome]:
    """Run the same fleet and jobs with each way of sharing."""
    return {sharing: Fleet(nodes, plans, sharing).run() for sharing in Sharing}
