"""The decision about a job, in short."""

from collections.abc import Iterable

from spotrun.api.names import ConditionType, Phase
from spotrun.state.actions import Action, Remove
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import JobBuilder


def condition(job: JobBuilder, kind: ConditionType) -> tuple[str, str] | None:
    """Return whether a condition of the next status holds, and why; None if it is not there."""
    found = find(job.decide().status, kind)
    return None if found is None else (found.status.value, found.reason)


def message_of(status: JobState, kind: ConditionType) -> str:
    """Return the message of a condition that is there."""
    found = find(status, kind)
    assert found is not None, kind
    return found.message


def phase(job: JobBuilder) -> tuple[Phase | None, str | None]:
    """Return the phase of the next status, and its reason."""
    status = job.decide().status
    return status.phase, status.reason


def removed(actions: Iterable[Action]) -> list[int]:
    """Return the numbers of the workers that are deleted, in the order decided."""
    return [action.worker_id for action in actions if isinstance(action, Remove)]
