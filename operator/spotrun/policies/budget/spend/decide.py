"""The decision for a namespace: the verdict of its SpendLimits on each job, and their states."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spotrun.api.names import FINALIZER_SPEND
from spotrun.policies.budget.spend import words
from spotrun.policies.budget.spend.allotment import Allotment, allot, spent_in_period
from spotrun.policies.budget.spend.conclude import Names, closed, conclude
from spotrun.policies.budget.spend.facts import JobFacts, Limit, SpendState
from spotrun.state.snapshot import SpendVerdict

_LOOK_SECONDS = 30.0
"""Prices change between passes; the reserve in a limit covers a minute of that."""
_LEAST_SECONDS = 1.0


@dataclass(frozen=True)
class SpendDecision:
    """The outcome for a namespace."""

    verdicts: Mapping[str, SpendVerdict] = field(default_factory=dict)  # by a job's UID
    states: Mapping[str, SpendState] = field(default_factory=dict)  # by limit
    protect: tuple[JobFacts, ...] = ()  # they get the operator's finalizer before they start
    release: tuple[JobFacts, ...] = ()  # their spending is stored, or no limit covers them
    wake_after_seconds: float = float("inf")


def decide(
    limits: Iterable[Limit],
    jobs: Iterable[JobFacts],
    now: datetime,
    before: Mapping[str, SpendVerdict] | None = None,
) -> SpendDecision:
    """Return the decision from all limits and all jobs of a namespace."""
    jobs = sorted(jobs, key=lambda job: job.order)
    stored = sorted(limits, key=lambda limit: limit.name)
    present = [closed(limit, jobs, now) for limit in stored]
    spent = {limit.name: spent_in_period(limit, jobs, now) for limit in present}
    live = [job for job in jobs if not job.is_deleting]
    found = allot(present, spent, live)
    verdicts = {
        job.uid: verdict
        for job in live
        if (verdict := _verdict(present, job, found, now, before or {})) is not None
    }
    states = {
        limit.name: conclude(
            limit,
            live,
            spent[limit.name],
            found.reserved[limit.name],
            names=_names(limit, live, found),
            now=now,
        )
        for limit in present
    }
    runs = any(job.workers for job in jobs)
    periods = (limit.period(now).end for limit in present)
    ends = ((end - now).total_seconds() for end in periods if end is not None)
    waits = [_LOOK_SECONDS if runs else float("inf"), found.seconds_left, *ends]
    return SpendDecision(
        verdicts,
        states,
        tuple(job for job in live if _is_to_be_protected(present, job)),
        tuple(job for job in jobs if _is_to_be_released(stored, job)),
        max(min(waits), _LEAST_SECONDS),
    )


def _verdict(
    limits: Iterable[Limit],
    job: JobFacts,
    found: Allotment,
    now: datetime,
    before: Mapping[str, SpendVerdict],
) -> SpendVerdict | None:
    """Return the verdict of the limits on a job; None if none covers it."""
    if job.is_over or not any(limit.covers(job) for limit in limits):
        return None
    said = before.get(job.uid)
    if job.is_held and job.workers and said is not None and said.holds:
        return said  # its workers are about to leave
    if job.name in found.stopped:
        verdict = words.stop(job, found.stopped[job.name], now)
    elif job.name in found.refused:
        verdict = words.refusal(job, found.refused[job.name], now)
    elif job.is_held and job.workers:
        verdict = SpendVerdict("a SpendLimit has stopped this job, and its workers leave")
    else:
        return SpendVerdict(
            workers=found.sizes.get(job.name),
            is_granted=job.name in found.granted or bool(job.workers),
        )
    return said if said is not None and said.code == verdict.code else verdict


def _names(limit: Limit, jobs: Iterable[JobFacts], found: Allotment) -> Names:
    """Return the jobs that this limit holds, and those that it has stopped."""
    refused = [name for name, why in found.refused.items() if why.limit.name == limit.name]
    stopped = [name for name, why in found.stopped.items() if why.limit.name == limit.name]
    leaving = [job.name for job in jobs if job.is_held and job.workers and limit.covers(job)]
    ran = {job.name for job in jobs if job.usd}
    return Names(
        held=tuple(sorted(name for name in refused if name not in ran)),
        stopped=tuple(sorted({*stopped, *leaving, *(n for n in refused if n in ran)})),
    )


def _is_to_be_protected(limits: Iterable[Limit], job: JobFacts) -> bool:
    """Whether the job's spending would not be counted if it were deleted now."""
    costs = job.asks or bool(job.workers) or bool(job.usd)
    is_covered = any(limit.covers(job) for limit in limits)
    return costs and is_covered and FINALIZER_SPEND not in job.finalizers


def _is_to_be_released(limits: Iterable[Limit], job: JobFacts) -> bool:
    """Whether the job's finalizer may be removed, because its spending is stored."""
    if FINALIZER_SPEND not in job.finalizers:
        return False
    its = [limit for limit in limits if limit.covers(job)]
    if not job.is_deleting:
        return not its
    return all(job.uid in limit.state.closing for limit in its)
