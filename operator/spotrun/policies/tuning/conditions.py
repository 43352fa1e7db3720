"""The conditions of a search: whether it continues, has money, and receives its metric."""

from dataclasses import replace
from datetime import datetime, timedelta

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType
from spotrun.api.tuning.words import (
    TuningConditionType,
    TuningPhase,
    TuningReason,
)
from spotrun.policies.tuning.money import next_cap
from spotrun.policies.tuning.snapshot import Child, TuningSnapshot
from spotrun.policies.tuning.state import TuningState
from spotrun.state.conditions import find, with_condition

_MOST_NAMES = 20

Said = tuple[bool | None, TuningReason, str]
"""Whether a condition holds, its reason, and its message."""


def state_conditions(
    search: TuningSnapshot, status: TuningState, now: datetime, waits_for: str = ""
) -> TuningState:
    """State all conditions; `waits_for` is why the next trial has no values yet."""
    said: dict[TuningConditionType, Said] = {
        TuningConditionType.SEARCHING: _searching(status, waits_for),
        TuningConditionType.WITHIN_BUDGET: _within_budget(search, status),
        TuningConditionType.METRIC_REPORTED: _metric_reported(search, status, now),
        TuningConditionType.COMPLETE: _over(status, TuningPhase.SUCCEEDED),
        TuningConditionType.FAILED: _over(status, TuningPhase.FAILED),
    }
    conditions = status.conditions
    for kind, (holds, reason, message) in said.items():
        conditions = with_condition(
            conditions,
            kind,
            reason.value,
            message,
            holds=holds,
            generation=search.generation,
            now=now,
        )
    return replace(status, conditions=conditions)


def metric_wake_after_seconds(search: TuningSnapshot, now: datetime) -> float | None:
    """Return when the wait for a metric that no trial reports is over."""
    due = (_due(search, child) for child in search.children.values())
    waits = ((at - now).total_seconds() for at in due if at is not None)
    return min((wait for wait in waits if wait > 0), default=None)


def _searching(status: TuningState, waits_for: str) -> Said:
    if waits_for:
        return None, TuningReason.NO_VALUES_YET, waits_for[:MAX_DETAIL_CHARS]
    reason = status.reason or TuningReason.TRIALS_RUN
    is_on = status.phase is TuningPhase.RUNNING
    return is_on, reason, "more trials may begin" if is_on else "no trial begins"


def _over(status: TuningState, phase: TuningPhase) -> Said:
    reason = status.reason or TuningReason.TRIALS_RUN
    is_so = status.phase is phase
    return is_so, reason, (status.message or "") if is_so else "the search has not ended this way"


def _within_budget(search: TuningSnapshot, status: TuningState) -> Said:
    budget = search.spec.budget
    if budget is None or budget.max_cost_usd is None:
        return True, TuningReason.NO_LIMIT, "there is no budget.maxCostUsd"
    cap = next_cap(search, status)
    if cap is None:
        why = f"budget.maxCostUsd, ${budget.max_cost_usd}, has no room for another trial"
        return False, TuningReason.BUDGET_EXHAUSTED, why
    return True, TuningReason.WITHIN_BUDGET, "there is money for another trial"


def _metric_reported(search: TuningSnapshot, status: TuningState, now: datetime) -> Said:
    metric = search.spec.objective.metric
    if any(one.value is not None for one in status.trials):
        return True, TuningReason.METRIC_REPORTED, f"trials report {metric}"
    missing = [
        child
        for child in search.children.values()
        if (due := _due(search, child)) is not None and due <= now
    ]
    ended_without = [one for one in status.trials if one.reason is TuningReason.NO_METRIC]
    if not missing and not ended_without:
        return None, TuningReason.NOT_REPORTED_YET, f"no trial has reported {metric} yet"
    names = sorted({name for child in search.children.values() for name in child.metrics})
    reported = ", ".join(names[:_MOST_NAMES]) or "no metric at all"
    told = f"they report {reported}"
    why = (
        f"no trial reports {metric}, {told}: correct objective.metric in a new TuningJob, or call "
        f"spotrun_trainer.report({metric}=...) in the script"
    )
    return False, TuningReason.METRIC_MISSING, why


def _due(search: TuningSnapshot, child: Child) -> datetime | None:
    """Return when a trial that makes steps should have reported the metric; None: not yet known."""
    running = find(child.state, ConditionType.RUNNING)
    if running is None or running.status is not ConditionStatus.TRUE:
        return None
    if not child.state.progress.step or search.spec.objective.metric in child.metrics:
        return None
    within = timedelta(seconds=search.spec.objective.report_within.seconds)
    return running.last_transition_time + within
