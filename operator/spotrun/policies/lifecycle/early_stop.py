"""The early end of a training by its metric: decided here, and carried out by the trainer.

A trainer under `Run` ends its loop with the next step and saves it, so the job completes like any
other. A script that only saves on order is ended after that checkpoint. A script that follows no
orders is ended at once, and saves when it is told to end.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.lifecycle.patience import followed
from spotrun.policies.lifecycle.suspension import CHECKPOINT_SECONDS
from spotrun.policies.policy import Policy
from spotrun.state.conditions import read_reason, state
from spotrun.state.job_state import JobState
from spotrun.state.stored.training import NO_COURSE
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import (
    all_in_process,
    can_be_asked_to_save,
    is_answered,
    world_members,
)


def stop_early(view: View, status: JobState) -> JobState:
    """Follow the metric; end a job whose trainer does not end by itself."""
    if status.phase in FINISHED:
        return status
    wanted = view.job.spec.stop_when
    if wanted is None:
        return status if status.stop_when == NO_COURSE else replace(status, stop_when=NO_COURSE)
    course = followed(wanted, status.stop_when, status.metrics, view.now)
    if course != status.stop_when:
        status = replace(status, stop_when=course)
    if not is_carried_out(view, status, view.job.status.stop_when.decided_at):
        return status
    return stopped(view, status)


def is_stopping(status: JobState) -> bool:
    """Whether the training must end early."""
    return status.stop_when.decided_at is not None


def stopped(view: View, status: JobState) -> JobState:
    """End the job as succeeded, because of its metric."""
    course = status.stop_when
    reason = read_reason(course.reason, Reason.COMPLETED)
    return succeed(view, status, reason, f"the training was stopped by stopWhen: {course.message}")


def succeed(view: View, status: JobState, reason: Reason, why: str) -> JobState:
    """End the job as succeeded before its script has ended."""
    saved = status.checkpoint
    last = f"the last checkpoint is {saved.name}" if saved else "no checkpoint was reported"
    message = f"{why}; {last}"
    status = replace(status, phase=Phase.SUCCEEDED, reason=reason.value, message=message)
    return state(view, status, ConditionType.COMPLETE, reason, message, holds=True)


def is_carried_out(view: View, status: JobState, since: datetime | None) -> bool:
    """Whether the wait for an end that was decided and stored at a time is over.

    Before the decision is stored, agents are not told of it either.
    """
    if since is None:
        return False
    has_place = view.job.spec.checkpoint is not None
    members = world_members(view, status)
    if members and not can_be_asked_to_save(view, status):
        return True
    is_saved = not has_place or is_answered(status, since)
    if members and must_be_asked_to_save(view, status) and has_place:
        return is_saved
    return is_saved and (seconds_to_wait(view, since) or 0.0) <= 0


def must_be_asked_to_save(view: View, status: JobState) -> bool:
    """Whether the workers that train only save on order, and do not end by themselves."""
    return not all_in_process(world_members(view, status))


def seconds_to_wait(view: View, since: datetime | None) -> float | None:
    """Return how long the trainer may still take to end by itself; None: it need not end."""
    if since is None:
        return None
    return CHECKPOINT_SECONDS - (view.now - since) / timedelta(seconds=1)


def wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the operator stops waiting for the trainer to end by itself."""
    return seconds_to_wait(view, status.stop_when.decided_at)


EARLY_STOP = Policy(stop_early, wake_after_seconds=wake_after_seconds)
