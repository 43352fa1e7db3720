"""After the end: the last workers go, and the job itself when its time is over."""

from datetime import datetime

from spotrun.api.names import ConditionType, Phase
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.actions import DeleteJob
from spotrun.decide.ledger import holds_since
from spotrun.decide.view import FINISHED, View

GOODBYE_SECONDS = 30.0
"""Told that the job has succeeded, workers end by themselves within this, or are removed."""


def ended_at(status: TrainingJobStatus) -> datetime | None:
    """When the job ended; None while it has not."""
    return holds_since(status, ConditionType.COMPLETE) or holds_since(status, ConditionType.FAILED)


def may_end_by_themselves(view: View, status: TrainingJobStatus) -> bool:
    """Whether the workers of a job that succeeded are left to say their last words."""
    end = ended_at(status)
    if status.phase is not Phase.SUCCEEDED or end is None:
        return False
    return (view.now - end).total_seconds() < GOODBYE_SECONDS


def deletions(view: View, status: TrainingJobStatus) -> tuple[DeleteJob, ...]:
    """Delete a finished job for whose deletion the user gave a time."""
    finished = view.job.spec.finished
    end = ended_at(status)
    if status.phase not in FINISHED or finished is None or finished.delete_after is None:
        return ()
    if end is None or view.now - end < finished.delete_after.timedelta or view.alive:
        return ()
    return (DeleteJob(f"finished.deleteAfter: {finished.delete_after} have passed"),)
