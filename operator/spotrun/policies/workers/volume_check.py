"""The checkpoint's volume: a job of several workers cannot use one that only one node can mount."""

from spotrun.api.names import ConditionType, Reason
from spotrun.policies.policy import Policy
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import training

_NOT_SHARED = (
    "checkpoint.volume can be mounted by one node only, and workers.max is above 1: use a "
    "ReadWriteMany claim or nfs, or set workers.max to 1"
)


def is_refused(view: View, status: JobState) -> bool:
    """Whether no workers are wanted because of the volume; a world that trains continues."""
    if view.job.volume_is_shared is not False or view.job.spec.workers.max == 1:
        return False
    return not training(status)


def check_volume(view: View, status: JobState) -> JobState:
    """State whether the place for checkpoints fits the job."""
    is_shared = view.job.volume_is_shared
    if is_shared is None or status.phase in FINISHED:
        return status
    kind = ConditionType.CHECKPOINT_USABLE
    if not is_shared and view.job.spec.workers.max > 1:
        return state(view, status, kind, Reason.VOLUME_NOT_SHARED, _NOT_SHARED, holds=False)
    message = "every worker can mount the volume"
    return state(view, status, kind, Reason.TRAINING, message, holds=True)


VOLUME = Policy(check_volume)
