"""Writing into status: conditions that remember when they changed, decisions with their numbers."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.meta import ConditionStatus, ReasonText
from spotrun.api.names import Choice, ConditionType, Reason
from spotrun.state.job_state import JobState
from spotrun.state.stored.statements import Condition, RecordedDecision
from spotrun.state.view import View

_KEPT_DECISIONS = 10
_VALUES = {
    True: ConditionStatus.TRUE,
    False: ConditionStatus.FALSE,
    None: ConditionStatus.UNKNOWN,
}
_REASONS = {reason.value: reason for reason in Reason}


def record(
    view: View, status: JobState, what: str, why: str, numbers: Mapping[str, str]
) -> JobState:
    """Add a decision to the last ten."""
    decision = RecordedDecision(
        time=view.now, what=what, why=why[:MAX_MESSAGE_CHARS], numbers=dict(numbers)
    )
    kept = (*status.decisions, decision)[-_KEPT_DECISIONS:]
    return replace(status, decisions=kept)


def state(
    view: View,
    status: JobState,
    kind: ConditionType,
    reason: str,
    message: str,
    *,
    holds: bool | None,
) -> JobState:
    """Set whether a condition holds (None: unknown).

    Its transition time moves only when that changes.
    """
    conditions = with_condition(
        status.conditions,
        kind,
        reason,
        message,
        holds=holds,
        generation=view.job.generation,
        now=view.now,
    )
    return status if conditions is status.conditions else replace(status, conditions=conditions)


def with_condition(
    conditions: tuple[Condition, ...],
    kind: Choice,
    reason: str,
    message: str,
    *,
    holds: bool | None,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return the conditions with this one's new value; the same tuple if nothing changes."""
    old = next((one for one in conditions if one.type == kind.value), None)
    value = _VALUES[holds]
    is_same = old is not None and old.status is value
    said = (value, reason, message, generation)
    if old and said == (old.status, old.reason, old.message, old.observed_generation):
        return conditions
    condition = Condition(
        type=ReasonText(kind.value),
        status=value,
        observed_generation=generation,
        last_transition_time=old.last_transition_time if old and is_same else now,
        reason=ReasonText(reason),
        message=message,
    )
    others = tuple(c for c in conditions if c.type != kind.value)
    return tuple(sorted((*others, condition), key=lambda c: c.type))


def unsay(status: JobState, kind: ConditionType) -> JobState:
    """Remove a condition that is present only while it has something to report."""
    if find(status, kind) is None:
        return status
    others = tuple(one for one in status.conditions if one.type != kind.value)
    return replace(status, conditions=others)


def read_reason(text: str | None, default: Reason) -> Reason:
    """Read a reason from the text in the status."""
    return _REASONS.get(text or "", default)


def find(status: JobState, kind: ConditionType) -> Condition | None:
    """The condition of that type, if it was ever stated."""
    name = kind.value
    return next((c for c in status.conditions if c.type == name), None)


def holds_since(status: JobState, kind: ConditionType) -> datetime | None:
    """The time since which a condition is true; None if it is not."""
    condition = find(status, kind)
    if condition is None or condition.status is not ConditionStatus.TRUE:
        return None
    return condition.last_transition_time
