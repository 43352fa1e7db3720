"""Suspension: who holds a job back, each cleared by its own rule; a checkpoint comes first."""

from spotrun.api.names import ConditionType, Reason, SuspendedBy
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.ledger import holds_since, state
from spotrun.decide.schedule import is_open
from spotrun.decide.view import FINISHED, View
from spotrun.decide.world import training

CHECKPOINT_SECONDS = 110.0
"""So long a checkpoint may take after the order; a pod's grace period is 120 s."""


def suspend(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Say who holds the job back."""
    if status.phase in FINISHED:
        return status
    by = _holders(view, status)
    if not by and not status.suspended_by:
        return status
    status = status.model_copy(update={"suspended_by": by or None})
    if not by:
        message = "nobody holds the job back"
        return state(view, status, ConditionType.SUSPENDED, Reason.TRAINING, message, holds=False)
    reason = _REASONS.get(by[0], Reason.SUSPENDED_BY_USER)
    message = "; ".join(f"{who}: {who.purpose}" for who in by)
    return state(view, status, ConditionType.SUSPENDED, reason, message, holds=True)


def may_remove(view: View, status: TrainingJobStatus) -> bool:
    """Whether a suspended job's workers may go: their state is saved, or cannot be."""
    if not status.suspended_by or not training(status) or view.job.spec.checkpoint is None:
        return True
    since = holds_since(status, ConditionType.SUSPENDED)
    if since is None:
        return False
    saved = status.checkpoint
    if saved is not None and saved.time.datetime > since:
        return True
    return (view.now - since).total_seconds() >= CHECKPOINT_SECONDS


def _holders(view: View, status: TrainingJobStatus) -> tuple[SuspendedBy, ...]:
    spec, before = view.job.spec, status.suspended_by or ()
    holds = {
        SuspendedBy.USER: spec.suspend,
        SuspendedBy.SCHEDULE: spec.schedule is not None and not is_open(spec.schedule, view.now),
        # Set and cleared by policies of their own; until then they stand as they are.
        SuspendedBy.BUDGET: SuspendedBy.BUDGET in before,
        SuspendedBy.QUEUE: SuspendedBy.QUEUE in before,
        SuspendedBy.IDLE: SuspendedBy.IDLE in before,
    }
    return tuple(who for who in SuspendedBy if holds[who])


_REASONS = {
    SuspendedBy.USER: Reason.SUSPENDED_BY_USER,
    SuspendedBy.SCHEDULE: Reason.OUTSIDE_SCHEDULE,
    SuspendedBy.BUDGET: Reason.BUDGET_EXCEEDED,
}
