"""The budget: at its limit a checkpoint is saved, and then the job is held back or ended.

The cost of that last checkpoint and of the end of the workers is reserved all the time, so that the
job spends no more than the limit. A job that was stopped continues once the limit is above the sum
of what was spent and reserved: with a lower limit, the job would be stopped again at once.
"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType, Phase, Reason, SuspendedBy
from spotrun.api.spec.limits import Budget, OnExceeded
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.money.budget import levels_crossed, stop_at, used_percent
from spotrun.money.budget import reserve as reserve_for
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour
from spotrun.policies.budget.limits import (
    Verdict,
    is_held,
    on_price,
    on_rate,
    price_wake_after_seconds,
    retry_wake_after_seconds,
)
from spotrun.policies.cost.bill import Bill, bill
from spotrun.policies.lifecycle.suspension import CHECKPOINT_SECONDS, may_remove
from spotrun.policies.policy import Policy, Wakes
from spotrun.state.actions import Announce
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import grace_seconds_of
from spotrun.state.stored.cost import Cost
from spotrun.state.view import FINISHED, View

_LATE_SECONDS = 60  # workers may know a time that is this old: it is written once a minute
_LEAST_WARNING = timedelta(seconds=90)
"""No worker is told to stop sooner than this: if the operator runs, the worker gets a newer time
before that."""
_SHORTEST_SECONDS = 0.001  # the time of a wake-up is rounded down, so it may come too early


def keep_budget(view: View, status: JobState) -> JobState:
    """State whether the job is within its budget; hold it back, or end it, once it is not."""
    budget = view.job.spec.budget
    if status.phase in FINISHED:
        return status
    if budget is None:
        return _held(status, holds=False)
    now = bill(view, status)
    verdict = (
        _on_limit(view, status, budget, now)
        or on_price(view, status, budget, now)
        or on_rate(view, status, budget, now)
        or _within(budget, now)
    )
    return _follow(view, status, budget, verdict, now)


def keep_limit(view: View, status: JobState) -> JobState:
    """Hold the job back once `maxCostUsd` is reached, or end it; what holds it already stays.

    This is for a job that cannot be decided: possible nodes and their prices play no part.
    """
    budget = view.job.spec.budget
    if status.phase in FINISHED or budget is None:
        return status
    now = bill(view, status)
    verdict = _on_limit(view, status, budget, now)
    if verdict is None or not verdict.holds_back:
        return status
    return _follow(view, status, budget, verdict, now)


def with_budget(cost: Cost, view: View, now: Bill) -> Cost:
    """Show how much of the budget is used, and until when workers continue by themselves."""
    budget = view.job.spec.budget
    percent = stops = None
    if budget is not None and budget.max_cost_usd is not None:
        limit, rate = Usd.of(budget.max_cost_usd), now.usd_per_hour
        percent = used_percent(now.spent_usd, limit)
        if budget.on_exceeded is not OnExceeded.WARN:
            kept = end_usd(view.job.spec, rate)
            stops = stop_at(
                limit=limit, spent=now.spent_usd, reserved=kept, rate=rate, now=view.now
            )
            stops = stops and max(stops, view.now + _LEAST_WARNING)
    return replace(cost, budget_used_percent=percent, stop_at=stops)


def is_spent(view: View, status: JobState) -> bool:
    """Whether the job has reached the limit that holds it back, including the cost of its end."""
    budget = view.job.spec.budget
    verdict = _on_limit(view, status, budget, bill(view, status)) if budget is not None else None
    return verdict is not None and verdict.holds_back


def budget_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when time alone changes the verdict on the budget."""
    budget = view.job.spec.budget
    if budget is None:
        return None
    if is_held(status):
        return retry_wake_after_seconds(view, status)
    now = bill(view, status)
    waits = [price_wake_after_seconds(view, budget, now)]
    if budget.max_cost_usd is not None:
        limit = Usd.of(budget.max_cost_usd)
        sums = [limit * Decimal(level) * Decimal("0.01") for level in budget.warn_at_percent]
        sums.append(limit - (_counted(view, status, budget, now) - now.spent_usd))
        lasts = (
            now.usd_per_hour.seconds_for(one - now.spent_usd) for one in sums if one > now.spent_usd
        )
        waits += [max(float(one), _SHORTEST_SECONDS) for one in lasts if one is not None]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)


def budget_news(view: View, status: JobState) -> tuple[Announce, ...]:
    """Return the warning for a level that was just crossed: of several, only the highest."""
    budget = view.job.spec.budget
    if budget is None or budget.max_cost_usd is None:
        return ()
    before, after = (_shown(one.cost) for one in (view.job.status, status))
    limit = Usd.of(budget.max_cost_usd)
    levels = levels_crossed(before, after, limit, budget.warn_at_percent)
    if not levels:
        return ()
    rate = status.cost.usd_per_hour or NO_RATE
    message = f"{levels[-1]}% of the budget is used: {after} of {limit}; the job now costs {rate}"
    return (Announce(Reason.BUDGET_WARNING, message, is_warning=True),)


def _shown(cost: Cost) -> Usd:
    """Return the money spent, as status shows it: for workers, and for their checkpoints."""
    storage = cost.storage.usd if cost.storage is not None else None
    return (cost.usd or NO_USD) + (storage or NO_USD)


def _on_limit(view: View, status: JobState, budget: Budget, now: Bill) -> Verdict | None:
    if budget.max_cost_usd is None:
        return None
    limit, counted = Usd.of(budget.max_cost_usd), _counted(view, status, budget, now)
    if counted < limit:
        return None
    message = f"{now.spent_usd} of {limit} are spent"
    if budget.on_exceeded is OnExceeded.WARN:
        return Verdict(Reason.BUDGET_EXCEEDED, message, is_within=False)
    message += (
        f", and {counted - now.spent_usd} are kept for the last checkpoint and the end of the "
        f"workers: to continue, set budget.maxCostUsd above {counted.amount}"
    )
    return Verdict(Reason.BUDGET_EXCEEDED, message, is_within=False, holds_back=True)


def _follow(view: View, status: JobState, budget: Budget, verdict: Verdict, now: Bill) -> JobState:
    """State the verdict, and apply it."""
    status = _held(_with_sums(view, status, budget, verdict, now), holds=verdict.holds_back)
    kind, message = ConditionType.WITHIN_BUDGET, verdict.message[:MAX_MESSAGE_CHARS]
    status = state(view, status, kind, verdict.reason, message, holds=verdict.is_within)
    return _ended(view, status, budget, verdict)


def _within(budget: Budget, now: Bill) -> Verdict:
    if budget.max_cost_usd is None:
        return Verdict(Reason.TRAINING, "the job costs less per hour than maxUsdPerHour")
    limit = Usd.of(budget.max_cost_usd)
    levels = levels_crossed(Usd(-1), now.spent_usd, limit, budget.warn_at_percent)
    if levels:
        return Verdict(Reason.BUDGET_WARNING, f"at least {levels[-1]}% of {limit} is spent")
    return Verdict(Reason.TRAINING, f"the money spent and reserved is below {limit}")


def _counted(view: View, status: JobState, budget: Budget, now: Bill) -> Usd:
    """Return what is compared with the limit: the money spent and, if it stops the job, reserved.

    While the budget holds the job back this sum does not fall. Otherwise a correction, because
    workers had ended a second before the operator knew it, would let the job start again, and stop
    it again at once.
    """
    if budget.on_exceeded is OnExceeded.WARN:
        return now.spent_usd
    sum_now = now.spent_usd + _reserved(view, status, now)
    highest = status.accumulators.continue_above_usd if is_held(status) else None
    return max(highest or NO_USD, sum_now)


def _reserved(view: View, status: JobState, now: Bill) -> Usd:
    """Return the amount for an orderly end: while the budget holds the job, the highest so far."""
    known = status.accumulators.reserved_usd if is_held(status) else None
    return max(known or NO_USD, end_usd(view.job.spec, now.usd_per_hour))


def end_usd(spec: TrainingJobSpec, rate: UsdPerHour) -> Usd:
    """Return the part of a job's budget that is reserved for its last checkpoint and its end."""
    checkpoint_seconds = CHECKPOINT_SECONDS if spec.checkpoint is not None else 0.0
    ending_seconds = grace_seconds_of(spec) + _LATE_SECONDS
    return reserve_for(rate, Decimal(checkpoint_seconds), Decimal(ending_seconds))


def _with_sums(
    view: View, status: JobState, budget: Budget, verdict: Verdict, now: Bill
) -> JobState:
    """Remember, while the limit holds the job, what is reserved and which sum has reached it."""
    reserved = counted = None
    if verdict.reason is Reason.BUDGET_EXCEEDED and verdict.holds_back:
        reserved = _reserved(view, status, now).as_stored
        counted = _counted(view, status, budget, now).as_stored
    sums = replace(status.accumulators, reserved_usd=reserved, continue_above_usd=counted)
    return status if sums == status.accumulators else replace(status, accumulators=sums)


def _held(status: JobState, *, holds: bool) -> JobState:
    others = tuple(by for by in status.suspended_by or () if by is not SuspendedBy.BUDGET)
    by = (*others, SuspendedBy.BUDGET) if holds else others
    if holds == is_held(status):
        return status
    return replace(status, suspended_by=by or None)


def _ended(view: View, status: JobState, budget: Budget, verdict: Verdict) -> JobState:
    """End a job with onExceeded Fail, once its last checkpoint is saved or cannot be saved."""
    is_over = verdict.reason is Reason.BUDGET_EXCEEDED and budget.on_exceeded is OnExceeded.FAIL
    if not is_over or not view.is_time_sure:
        return status
    if not is_held(view.job.status) or not may_remove(view, status):
        return status
    reason, message = verdict.reason, verdict.message
    status = replace(status, phase=Phase.FAILED, reason=reason.value, message=message)
    return state(view, status, ConditionType.FAILED, reason, message, holds=True)


BUDGET = Policy(
    keep_budget,
    wake_after_seconds=budget_wake_after_seconds,
    wakes=Wakes.UNTIL_ALL_HAVE_LEFT,
    announce=budget_news,
)
