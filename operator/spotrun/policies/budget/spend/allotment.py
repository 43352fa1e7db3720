"""The allotment: which jobs of a namespace may start, grow and continue within its SpendLimits.

It is one pure function over all jobs, in an order that does not depend on when the operator looked
at each job. So jobs that start in the same second cannot reserve the same dollar, and a new leader
gets the same result.

For each job with workers, a limit reserves the cost of its last checkpoint, of its end, and of ten
minutes of its work. A job may start if the rest is enough for the same of its smallest world. Under
`Suspend` the ten minutes of the last job are not reserved: jobs are stopped one after the other,
the cheapest to stop first, so that the remaining money goes to those whose interruption would waste
most. The last job is stopped when the rest only just covers the ends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spotrun.api.spec.spend_limit import OnLimit
from spotrun.money.units import NO_USD, Usd, UsdPerHour
from spotrun.policies.budget.spend.facts import JobFacts, Limit, useful_usd


@dataclass(frozen=True)
class Refused:
    """The limit that keeps a job from starting, and how much of it the job would need."""

    limit: Limit
    left: Usd
    need: Usd | None  # None: no price is known


@dataclass(frozen=True)
class Stopped:
    """The limit that stops a running job."""

    limit: Limit
    left: Usd


@dataclass(frozen=True)
class Allotment:
    """The share of each job; jobs in no list may continue as they are."""

    granted: frozenset[str] = frozenset()
    refused: Mapping[str, Refused] = field(default_factory=dict)
    stopped: Mapping[str, Stopped] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)  # the most workers of each job
    reserved: Mapping[str, Usd] = field(default_factory=dict)  # by limit
    seconds_left: float = float("inf")  # until a limit stops the next job, at the earliest


class _Room:
    """The rest of one limit while the jobs are processed one by one."""

    def __init__(self, limit: Limit, spent: Usd, jobs: Iterable[JobFacts]) -> None:
        self.limit = limit
        self.jobs = tuple(job for job in jobs if limit.covers(job))
        self.rest = self.left = limit.usd - spent

    def take(self, usd: Usd) -> None:
        self.left -= usd

    @property
    def reserved(self) -> Usd:
        return self.rest - self.left


def allot(limits: Iterable[Limit], spent: Mapping[str, Usd], jobs: Iterable[JobFacts]) -> Allotment:
    """Distribute the rest of the limits; `spent` is by limit, and does not include reserves."""
    ordered = sorted(jobs, key=lambda job: job.order)
    rooms = [
        _Room(limit, spent[limit.name], ordered)
        for limit in sorted(limits, key=lambda one: one.name)
    ]
    stopped: dict[str, Stopped] = {}
    seconds = float("inf")
    for room in rooms:
        seconds = min(seconds, _keep_running(room, stopped))
    binding = [room for room in rooms if room.limit.is_binding]
    refused = _start(binding, ordered)
    granted = frozenset(job.name for job in ordered if job.asks and job.name not in refused)
    sizes = _grow(binding, ordered, granted, stopped)
    return Allotment(
        granted,
        refused,
        stopped,
        sizes,
        {room.limit.name: max(room.reserved, NO_USD) for room in rooms},
        seconds,
    )


def _keep_running(room: _Room, stopped: dict[str, Stopped]) -> float:
    """Reserve money for running jobs; stop some if it is too little; return how long it lasts."""
    there = [job for job in room.jobs if job.workers]
    for job in there:
        room.take(job.end_usd(job.present_rate))
    running = [job for job in there if not (job.is_stopping or job.name in stopped)]
    kept = running
    if room.limit.spec.on_exceeded is OnLimit.SUSPEND:
        kept = _worth_keeping(running, room.left)
        left = room.rest
        stopped.update({job.name: Stopped(room.limit, left) for job in running if job not in kept})
    slack, work = room.left, NO_USD
    for job in kept:
        work += useful_usd(job.present_rate)
    room.take(work)
    if room.limit.spec.on_exceeded is not OnLimit.SUSPEND or not kept:
        return float("inf")
    rate = sum((job.present_rate for job in there), UsdPerHour())
    lasts = rate.seconds_for(slack if len(kept) == 1 else slack - work)
    return float("inf") if lasts is None else float(lasts)


def _worth_keeping(running: list[JobFacts], left: Usd) -> list[JobFacts]:
    """Return the jobs that continue: the most expensive to stop first, each with ten minutes.

    The first alone continues as long as anything is left beyond the cost of all ends.
    """
    if left <= NO_USD:
        return []
    kept: list[JobFacts] = []
    for job in sorted(running, key=_dearest_first):
        left -= useful_usd(job.present_rate)
        if left < NO_USD:
            break
        kept.append(job)
    return kept or sorted(running, key=_dearest_first)[:1]


def _dearest_first(job: JobFacts) -> tuple[object, ...]:
    return (Usd() - job.interruption_usd, -job.spec.priority, job.created_at, job.name)


def _start(rooms: list[_Room], jobs: Iterable[JobFacts]) -> dict[str, Refused]:
    """Reserve the smallest useful piece of each job that asks, and return the refused jobs."""
    refused: dict[str, Refused] = {}
    for job in jobs:
        if not job.asks:
            continue
        need = piece_usd(job)
        its = [room for room in rooms if room.limit.covers(job)]
        short = next((room for room in its if need is None or room.left < need), None)
        if short is not None:
            refused[job.name] = Refused(short.limit, max(short.left, NO_USD), need)
        elif need is not None:
            for room in its:
                room.take(need)
    return refused


def piece_usd(job: JobFacts) -> Usd | None:
    """Return the money for a job's smallest useful piece; None while no price is known.

    It is ten minutes of its smallest world, a checkpoint, and the end of these workers.
    """
    if job.worker_rate is None:
        return None
    rate = job.worker_rate * job.least
    return useful_usd(rate) + job.end_usd(rate)


def _grow(
    rooms: list[_Room],
    jobs: Iterable[JobFacts],
    granted: frozenset[str],
    stopped: Mapping[str, Stopped],
) -> dict[str, int]:
    """Return the largest size of each job that runs or may start."""
    sizes: dict[str, int] = {}
    for job in jobs:
        its = [room for room in rooms if room.limit.covers(job)]
        runs = bool(job.workers) and not job.is_stopping and job.name not in stopped
        if not its or not (runs or job.name in granted):
            continue
        base = max(job.workers, job.least)
        more = max(job.wanted - base, 0)
        sizes[job.name] = base
        if not more or job.worker_rate is None:
            continue
        rate = job.worker_rate * more
        need = useful_usd(rate) + job.end_usd(rate)
        if all(room.left >= need for room in its):
            sizes[job.name] = job.wanted
            for room in its:
                room.take(need)
    return sizes


def spent_in_period(limit: Limit, jobs: Iterable[JobFacts], now: datetime) -> Usd:
    """Return what was spent in the present period, by deleted jobs and by existing ones."""
    period, state = limit.period(now), limit.state
    is_same = state.period_start == period.start
    closing = frozenset(state.closing)
    live = (job.spent_in(period) for job in jobs if job.uid not in closing and limit.covers(job))
    return sum(live, state.deleted_usd if is_same else NO_USD)
