"""Suspension: what suspends a job, each cause cleared by its own rule; a checkpoint comes first."""

from dataclasses import replace

from spotrun.api.names import ConditionType, Reason, SuspendedBy
from spotrun.policies.lifecycle.schedule_windows import (
    is_open,
    next_change,
    opens,
    seconds_until_change,
)
from spotrun.policies.policy import Policy, Wakes
from spotrun.state.conditions import find, holds_since, read_reason, state
from spotrun.state.job_state import JobState
from spotrun.state.sizes import smallest
from spotrun.state.stored.workers import GivenWay
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import can_be_asked_to_save, is_answered, training

CHECKPOINT_SECONDS = 110.0
"""A checkpoint may take this long after the order; a pod's grace period is 120 s."""


def suspend(view: View, status: JobState) -> JobState:
    """State what suspends the job."""
    if status.phase in FINISHED:
        return status
    by = who_holds(view, status)
    if not by and not status.suspended_by:
        return status
    status = replace(status, suspended_by=by or None)
    if not by:
        message = "nothing suspends the job"
        return state(view, status, ConditionType.SUSPENDED, Reason.TRAINING, message, holds=False)
    is_queue = by[0] is SuspendedBy.QUEUE
    reason = _queue_reason(view) if is_queue else why_suspended(status)
    message = what_holds(view, status)
    return state(view, status, ConditionType.SUSPENDED, reason, message, holds=True)


def who_holds(view: View, status: JobState) -> tuple[SuspendedBy, ...]:
    """Return what suspends the job, or would suspend it if it were not over."""
    spec, before = view.job.spec, status.suspended_by or ()
    holds = {
        SuspendedBy.USER: spec.suspend,
        SuspendedBy.SCHEDULE: spec.schedule is not None and not is_open(spec.schedule, view.now),
        # Separate policies set and clear these; here they stay as they are.
        SuspendedBy.BUDGET: SuspendedBy.BUDGET in before,
        SuspendedBy.IDLE: SuspendedBy.IDLE in before,
        SuspendedBy.QUEUE: _waits_in_queue(view),
        SuspendedBy.SPEND_LIMIT: view.job.spend is not None and bool(view.job.spend.holds),
        SuspendedBy.PREEMPTION: SuspendedBy.PREEMPTION in before,
    }
    return tuple(who for who in SuspendedBy if holds[who])


def _waits_in_queue(view: View) -> bool:
    """Whether the queue that the job names has not admitted even the smallest world."""
    queue = view.job.queue
    return queue is not None and queue.workers < smallest(view.job.effective_workers)


def _queue_reason(view: View) -> Reason:
    queue = view.job.queue
    is_evicted = queue is not None and queue.evicted is not None
    return Reason.EVICTED_BY_QUEUE if is_evicted else Reason.QUEUED


def why_suspended(status: JobState) -> Reason:
    """Return the reason of the first cause that suspends the job."""
    by = status.suspended_by or ()
    if by and by[0] is SuspendedBy.BUDGET:
        stated = find(status, ConditionType.WITHIN_BUDGET)
        return read_reason(stated.reason if stated else None, Reason.BUDGET_EXCEEDED)
    if by and by[0] is SuspendedBy.QUEUE:
        stated = find(status, ConditionType.SUSPENDED)
        return read_reason(stated.reason if stated else None, Reason.QUEUED)
    return _REASONS.get(by[0], Reason.SUSPENDED_BY_USER) if by else Reason.SUSPENDED_BY_USER


def what_holds(view: View, status: JobState) -> str:
    """Describe what suspends the job, and how that ends."""
    words = {
        who: stated.message
        for who, kind in _CONDITIONS.items()
        if (stated := find(status, kind)) is not None
    }
    schedule = view.job.spec.schedule
    if schedule is not None and not is_open(schedule, view.now):
        ends = opens(schedule, view.now)
        words[SuspendedBy.SCHEDULE] = f"{SuspendedBy.SCHEDULE.purpose}; {ends}"
    if status.gives_way is not None:
        words[SuspendedBy.PREEMPTION] = _who_has_its_room(status.gives_way)
    if view.job.queue is not None:
        words[SuspendedBy.QUEUE] = view.job.queue.words
    if view.job.spend is not None and view.job.spend.holds:
        words[SuspendedBy.SPEND_LIMIT] = view.job.spend.holds
    return "; ".join(f"{who}: {words.get(who, who.purpose)}" for who in status.suspended_by or ())


def _who_has_its_room(given: GivenWay) -> str:
    return f"job {given.to} of higher priority needs the room; this job continues when it is free"


def schedule_wake_after_seconds(view: View, _status: JobState) -> float | None:
    """Return when the schedule suspends or resumes the job, or its message becomes more exact."""
    schedule = view.job.spec.schedule
    if schedule is None:
        return None
    if not is_open(schedule, view.now):
        return seconds_until_change(schedule, view.now)
    closes = next_change(schedule, view.now)
    return None if closes is None else (closes - view.now).total_seconds()


def may_remove(view: View, status: JobState) -> bool:
    """Whether a suspended job's workers may be removed: their state is saved, or cannot be."""
    return checkpoint_wake_after_seconds(view, status) <= 0


def checkpoint_wake_after_seconds(view: View, status: JobState) -> float:
    """Return how long the operator still waits for the checkpoint before a suspension."""
    if not status.suspended_by or view.job.spec.checkpoint is None:
        return 0.0
    if not can_be_asked_to_save(view, status):
        return 0.0  # the script is told when its pod is deleted, and can save then
    since = holds_since(status, ConditionType.SUSPENDED)
    if since is None or not any(n in view.alive_worker_ids for n in training(status)):
        return 0.0
    if is_answered(status, since):
        return 0.0
    return CHECKPOINT_SECONDS - (view.now - since).total_seconds()


_REASONS = {
    SuspendedBy.USER: Reason.SUSPENDED_BY_USER,
    SuspendedBy.SCHEDULE: Reason.OUTSIDE_SCHEDULE,
    SuspendedBy.IDLE: Reason.IDLE,
    SuspendedBy.SPEND_LIMIT: Reason.SPEND_LIMITED,
    SuspendedBy.PREEMPTION: Reason.GIVES_WAY,
}
_CONDITIONS = {
    SuspendedBy.BUDGET: ConditionType.WITHIN_BUDGET,
    SuspendedBy.IDLE: ConditionType.IDLE,
}
"""The conditions whose messages say how a suspension ends."""

SUSPENSION = Policy(
    suspend, wake_after_seconds=schedule_wake_after_seconds, wakes=Wakes.UNTIL_ALL_HAVE_LEFT
)
CHECKPOINT_BEFORE_SUSPENSION = Policy(wake_after_seconds=checkpoint_wake_after_seconds)
