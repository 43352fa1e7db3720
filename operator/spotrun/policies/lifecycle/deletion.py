"""The deletion of a finished job, once `finished.deleteAfter` has passed."""

from datetime import datetime

from spotrun.api.names import ConditionType
from spotrun.policies.lifecycle.kept_report import lacks_report
from spotrun.policies.policy import Policy, Wakes
from spotrun.state.actions import DeleteJob
from spotrun.state.conditions import holds_since
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View

_DOUBT_SECONDS = 30.0  # until the next check whether clocks agree


def over_since(status: JobState) -> datetime | None:
    """Return when the job ended; None while it has not."""
    return holds_since(status, ConditionType.COMPLETE) or holds_since(status, ConditionType.FAILED)


def deletions(view: View, status: JobState) -> tuple[DeleteJob, ...]:
    """Delete a finished job after the time that the user gave, once no worker runs."""
    seconds = deletion_wake_after_seconds(view, status)
    if seconds is None or seconds > 0 or view.alive or not view.is_time_sure:
        return ()
    if lacks_report(view):
        return ()  # the report is kept first, and that changes the job
    return (DeleteJob("the time of finished.deleteAfter has passed"),)


def deletion_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when a finished job must be deleted; None: never."""
    finished, end = view.job.spec.finished, over_since(status)
    if status.phase not in FINISHED or end is None:
        return None
    if finished is None or finished.delete_after is None:
        return None
    return finished.delete_after.seconds - (view.now - end).total_seconds()


def doubt_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when to check whether clocks agree; None if no deletion waits for that."""
    if view.is_time_sure:
        return None
    is_waiting = (
        status.phase not in FINISHED or deletion_wake_after_seconds(view, status) is not None
    )
    return _DOUBT_SECONDS if is_waiting else None


DELETION = Policy(
    wake_after_seconds=deletion_wake_after_seconds, wakes=Wakes.ALWAYS, actions=deletions
)
CLOCK_DOUBT = Policy(wake_after_seconds=doubt_wake_after_seconds, wakes=Wakes.ALWAYS)
