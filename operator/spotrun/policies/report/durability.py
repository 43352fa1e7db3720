"""A store that fails: stated while saves fail, and until a checkpoint is durable again.

Training continues meanwhile; the work since the newest durable checkpoint may be lost.
"""

from datetime import timedelta

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason
from spotrun.policies.policy import Policy
from spotrun.state.conditions import find, state
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import reported_progress

_KIND = ConditionType.CHECKPOINTS_DURABLE
_AGED = (("d", 86_400), ("h", 3600), ("m", 60))


def say_what_fails(view: View, status: JobState) -> JobState:
    """State whether checkpoints are durable, and why not; say nothing before the first failure."""
    if view.job.spec.checkpoint is None or status.phase in FINISHED:
        return status
    failures = [one.save_failure for one in reported_progress(view, status) if one.save_failure]
    if failures:
        message = f"{_newest(view, status)}. {failures[0]}"[:MAX_MESSAGE_CHARS]
        return state(view, status, _KIND, Reason.SAVE_FAILED, message, holds=False)
    stated, saved = find(status, _KIND), status.checkpoint
    if stated is None or stated.status is not ConditionStatus.FALSE or saved is None:
        return status
    if saved.time <= stated.last_transition_time:  # the failed savers are gone
        return status
    message = f"{saved.name} is durable: the store can be written again"
    return state(view, status, _KIND, Reason.TRAINING, message, holds=True)


def _newest(view: View, status: JobState) -> str:
    saved = status.checkpoint
    if saved is None:
        return "no checkpoint is durable, and saves fail"
    return f"the newest durable checkpoint, {saved.name}, is {_age(view.now - saved.time)} old"


def _age(time: timedelta) -> str:
    """Describe an age in coarse units, so that it does not change in every pass."""
    seconds = max(time.total_seconds(), 0.0)
    unit, size = next(((u, s) for u, s in _AGED if seconds >= s), ("m", 60))
    return f"{int(seconds // size)}{unit}" if seconds >= size else "less than 1m"


DURABILITY = Policy(say_what_fails, is_for_readers=True)
"""Whether the newest training state is durable."""
