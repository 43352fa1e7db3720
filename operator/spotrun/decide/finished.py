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


def goodbye_again_seconds(view: View, status: TrainingJobStatus) -> float | None:
    """How long the workers of a job that succeeded may still take; None: they may not."""
    end = ended_at(status)
    if status.phase is not Phase.SUCCEEDED or end is None:
        return None
    return GOODBYE_SECONDS - (view.now - end).total_seconds()


def may_end_by_themselves(view: View, status: TrainingJobStatus) -> bool:
    """Whether the workers of a job that succeeded are left to say their last words."""
    seconds = goodbye_again_seconds(view, status)
    return seconds is not None and seconds > 0


def deletions(view: View, status: TrainingJobStatus) -> tuple[DeleteJob, ...]:
    """Delete a finished job for whose deletion the user gave a time."""
    seconds = deletion_again_seconds(view, status)
    if seconds is None or seconds > 0 or view.alive:
        return ()
    return (DeleteJob("the time of finished.deleteAfter has passed"),)


def deletion_again_seconds(view: View, status: TrainingJobStatus) -> float | None:
    """When a finished job is to be deleted; None: never."""
    finished, end = view.job.spec.finished, ended_at(status)
    if status.phase not in FINISHED or end is None:
        return None
    if finished is None or finished.delete_after is None:
        return None
    return finished.delete_after.seconds - (view.now - end).total_seconds()
