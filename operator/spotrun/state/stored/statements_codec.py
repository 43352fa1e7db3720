"""The storage format of conditions and recorded decisions, a part of what `codec.py` handles."""

from collections.abc import Iterable

from spotrun.api import meta
from spotrun.api import status as api
from spotrun.api.field_types.text_values import Time
from spotrun.state.stored.statements import Condition, RecordedDecision


def read_conditions(stored: Iterable[meta.Condition] | None) -> tuple[Condition, ...]:
    """Read the conditions, in their order."""
    return tuple(
        Condition(
            type=one.type,
            status=one.status,
            last_transition_time=one.last_transition_time.datetime,
            reason=one.reason,
            message=one.message,
            observed_generation=one.observed_generation,
        )
        for one in stored or ()
    )


def write_conditions(conditions: Iterable[Condition]) -> tuple[meta.Condition, ...] | None:
    """Write the conditions; None where there are none."""
    written = (
        meta.Condition.model_construct(
            type=one.type,
            status=one.status,
            observed_generation=one.observed_generation,
            last_transition_time=Time.of(one.last_transition_time),
            reason=one.reason,
            message=one.message,
        )
        for one in conditions
    )
    return tuple(written) or None


def read_decisions(stored: Iterable[api.Decision] | None) -> tuple[RecordedDecision, ...]:
    """Read the last decisions, oldest first."""
    return tuple(
        RecordedDecision(one.time.datetime, one.what, one.why, one.numbers or {})
        for one in stored or ()
    )


def write_decisions(decisions: Iterable[RecordedDecision]) -> tuple[api.Decision, ...] | None:
    """Write the last decisions; None where there are none."""
    written = (
        api.Decision.model_construct(
            time=Time.of(one.time), what=one.what, why=one.why, numbers=dict(one.numbers) or None
        )
        for one in decisions
    )
    return tuple(written) or None
