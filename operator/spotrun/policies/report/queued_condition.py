"""The time since which a job waits for its turn: in a Kueue queue, or for nodes or quota.

Reasons change while a job waits: it gives nodes back, asks again, and lets others go first. The
condition does not, so that its transition time says how long the wait is.
"""

from spotrun.api.names import ConditionType, Reason, SuspendedBy
from spotrun.policies.placement.queueing.gang import is_incomplete
from spotrun.policies.policy import Policy
from spotrun.state.conditions import find, holds_since, state
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import training

_HOLDERS = frozenset({SuspendedBy.QUEUE, SuspendedBy.PREEMPTION})
"""A job suspended for another reason waits for a person, or for a known time."""
_IN_LINE = {
    reason.value
    for reason in (Reason.WAITING_FOR_GANG, Reason.QUOTA_EXCEEDED, Reason.WAITING_FOR_CAPACITY)
}


def check_turn(view: View, status: JobState) -> JobState:
    """State whether the job waits for its turn; a job that never waited has no such condition."""
    if _waits(view, status):
        reason = status.reason or Reason.QUEUED.value
        return state(view, status, ConditionType.QUEUED, reason, "see status.message", holds=True)
    if find(status, ConditionType.QUEUED) is None:
        return status
    message = "the job does not wait for a queue, for quota or for nodes"
    return state(view, status, ConditionType.QUEUED, Reason.TRAINING, message, holds=False)


def _waits(view: View, status: JobState) -> bool:
    if status.phase in FINISHED or view.job.spec.suspend:
        return False
    if status.suspended_by:
        return _HOLDERS.issuperset(status.suspended_by)
    if training(status):
        return False
    if status.reason in _IN_LINE:
        return True
    # Between two of these the job asks again: its pods are created, but it is not known yet if they
    # fit.
    has_waited = holds_since(status, ConditionType.QUEUED) is not None
    return has_waited and is_incomplete(view.job)


QUEUED_CONDITION = Policy(check_turn)
