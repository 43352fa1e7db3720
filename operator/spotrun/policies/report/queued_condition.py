"""Since when a job waits for its turn: in a queue of Kueue, or in a line for nodes or quota.

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
"""All others wait for a person, or for a time that is known."""
_IN_LINE = {
    reason.value
    for reason in (Reason.WAITING_FOR_GANG, Reason.QUOTA_EXCEEDED, Reason.WAITING_FOR_CAPACITY)
}


def check_turn(view: View, status: JobState) -> JobState:
    """Say whether the job waits for its turn; of one that never did nothing is said."""
    if _waits(view, status):
        reason = status.reason or Reason.QUEUED.value
        return state(view, status, ConditionType.QUEUED, reason, "see status.message", holds=True)
    if find(status, ConditionType.QUEUED) is None:
        return status
    message = "it does not wait for a queue, for quota or for nodes"
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
    # Between two of these it asks again: its pods are made, and nobody has said yet that they fit.
    has_waited = holds_since(status, ConditionType.QUEUED) is not None
    return has_waited and is_incomplete(view.job)


QUEUED_CONDITION = Policy(check_turn)
