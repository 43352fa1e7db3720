"""The early end of a training by its metric: decided here, carried out by its trainer.

A trainer under `Run` ends its loop with the next step and saves it, so the job completes as any
other. A script that only saves on order is ended after that checkpoint; one that follows no orders
is ended at once, and saves then.
"""

from dataclasses import replace
from datetime import timedelta

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.lifecycle.patience import followed
from spotrun.policies.lifecycle.suspension import CHECKPOINT_SECONDS
from spotrun.policies.policy import Policy
from spotrun.state.conditions import read_reason, state
from spotrun.state.job_state import JobState
from spotrun.state.stored.training import NO_COURSE
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import all_in_process, can_be_asked_to_save, world_members


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
    return succeed(view, status) if _ends_now(view, status) else status


def succeed(view: View, status: JobState) -> JobState:
    """End the job well, because of its metric."""
    course, saved = status.stop_when, status.checkpoint
    reason = read_reason(course.reason, Reason.COMPLETED)
    last = f"the last checkpoint is {saved.name}" if saved else "no checkpoint was reported"
    message = f"the training was stopped by stopWhen: {course.message}; {last}"
    status = replace(status, phase=Phase.SUCCEEDED, reason=reason.value, message=message)
    return state(view, status, ConditionType.COMPLETE, reason, message, holds=True)


def is_stopping(status: JobState) -> bool:
    """Whether the training is to end early."""
    return status.stop_when.decided_at is not None


def must_be_asked_to_save(view: View, status: JobState) -> bool:
    """Whether those who train only save on order, and do not end by themselves."""
    return not all_in_process(world_members(view, status))


def wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when it is waited no longer for the trainer to end by itself."""
    decided_at = status.stop_when.decided_at
    if decided_at is None:
        return None
    return CHECKPOINT_SECONDS - (view.now - decided_at) / timedelta(seconds=1)


def _ends_now(view: View, status: JobState) -> bool:
    # What is not stored yet is not told to agents either.
    decided_at, saved = view.job.status.stop_when.decided_at, status.checkpoint
    if decided_at is None:
        return False
    has_place = view.job.spec.checkpoint is not None
    members = world_members(view, status)
    if members and not can_be_asked_to_save(view, status):
        return True
    if members and must_be_asked_to_save(view, status) and has_place:
        return saved is not None and saved.time > decided_at
    is_over = (wake_after_seconds(view, status) or 0.0) <= 0
    return is_over and (saved is not None or not has_place)


EARLY_STOP = Policy(stop_early, wake_after_seconds=wake_after_seconds)
