"""The next state of a SpendLimit: what is spent, reserved and expected, and which jobs wait."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from spotrun.api.names import FINALIZER_SPEND
from spotrun.api.spec.spend_limit import OnLimit
from spotrun.api.status_parts.spend_limit import MOST_CLOSING, MOST_NAMED
from spotrun.money.budget import used_percent
from spotrun.money.units import NO_USD, Usd, seconds_between
from spotrun.policies.budget.spend.facts import (
    JobFacts,
    Limit,
    SpendCondition,
    SpendReason,
    SpendState,
)
from spotrun.policies.budget.spend.period import Period
from spotrun.state.conditions import with_condition


@dataclass(frozen=True)
class Names:
    """The jobs that a limit holds and has stopped."""

    held: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()


def closed(limit: Limit, jobs: Iterable[JobFacts], now: datetime) -> Limit:
    """Add deleted jobs to the stored sum, each once: their UIDs are stored with it.

    Once that is stored, a job's finalizer may be removed; its UID is removed when the job is gone.
    """
    period, state = limit.period(now), limit.state
    deleted = state.deleted_usd if state.period_start == period.start else NO_USD
    leaving = {job.uid: job for job in jobs if job.is_deleting and limit.covers(job)}
    closing = [uid for uid in state.closing if uid in leaving]
    new = [
        job
        for uid, job in leaving.items()
        if uid not in state.closing and FINALIZER_SPEND in job.finalizers
    ][: MOST_CLOSING - len(closing)]
    deleted = sum((job.closing_usd(period) for job in new), deleted).as_stored
    closing += [job.uid for job in new]
    start, end = period.start, period.end
    state = replace(
        state,
        period_start=start,
        period_end=end,
        deleted_usd=deleted,
        closing=tuple(sorted(closing)),
    )
    return replace(limit, state=state)


def conclude(
    limit: Limit,
    jobs: Iterable[JobFacts],
    spent: Usd,
    reserved: Usd,
    *,
    names: Names,
    now: datetime,
) -> SpendState:
    """Return the next status of the limit."""
    its = [job for job in jobs if limit.covers(job)]
    state = replace(
        limit.state,
        observed_generation=limit.generation,
        spent_usd=spent.as_stored,
        reserved_usd=reserved.as_stored,
        forecast_usd=_forecast(limit, its, spent, now),
        used_percent=used_percent(spent, limit.usd),
        running=sum(bool(job.workers) for job in its),
        held=len(names.held),
        suspended=len(names.stopped),
        held_jobs=names.held[:MOST_NAMED],
        suspended_jobs=names.stopped[:MOST_NAMED],
        as_of=now,
    )
    return _said(limit, state, now)


def _forecast(limit: Limit, jobs: Iterable[JobFacts], spent: Usd, now: datetime) -> Usd | None:
    """Add what running jobs will spend until they end, or until the period ends."""
    period, more = limit.period(now), NO_USD
    for job in jobs:
        if not job.rate:
            continue
        to_come = None
        if job.forecast_usd is not None:
            to_come = max(job.forecast_usd - job.usd, NO_USD)
        in_time = _until_end(job, period, now)
        known = [one for one in (to_come, in_time) if one is not None]
        if not known:
            return None
        more += min(known)
    return Usd(round((spent + more).exact, 4))


def _until_end(job: JobFacts, period: Period, now: datetime) -> Usd | None:
    if period.end is None:
        return None
    return job.rate.over(max(seconds_between(now, period.end), Decimal(0)))


def _said(limit: Limit, state: SpendState, now: datetime) -> SpendState:
    spent, usd, percent = state.spent_usd, limit.usd, limit.spec.warn_at_percent
    is_within, waits = spent < usd, state.held + state.suspended
    is_below = spent < usd * Decimal(percent) * Decimal("0.01")
    amount = f"{state.used_percent} of {usd} is spent"
    kept = "" if limit.spec.on_exceeded is OnLimit.WARN else "; " + _held_words(state)
    said = (
        (SpendCondition.WITHIN_LIMIT, is_within, SpendReason.EXCEEDED, f"limitUsd is {usd}"),
        (
            SpendCondition.BELOW_WARNING,
            is_below,
            SpendReason.WARNING,
            f"warnAtPercent is {percent}",
        ),
        (SpendCondition.STARTS_ALLOWED, not waits, SpendReason.HOLDS, _held_words(state)),
    )
    conditions = state.conditions
    for kind, holds, reason, words in said:
        conditions = with_condition(
            conditions,
            kind,
            SpendReason.WITHIN if holds else reason,
            words,
            holds=holds,
            generation=limit.generation,
            now=now,
        )
    return replace(state, conditions=conditions, message=amount + kept)


def _held_words(state: SpendState) -> str:
    if not state.held and not state.suspended:
        return "no job waits for this limit"
    return f"{state.held} jobs may not start and {state.suspended} were stopped: raise limitUsd" + (
        " or wait for the next period" if state.period_end is not None else ""
    )
