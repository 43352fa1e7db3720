"""Orders: a checkpoint out of turn, before state is lost that nobody else has."""

from datetime import timedelta

from spotrun.api.names import ConditionType
from spotrun.api.status import Orders, TrainingJobStatus
from spotrun.api.values import Time
from spotrun.decide.crew import members, training
from spotrun.decide.ledger import holds_since
from spotrun.decide.sizes import largest
from spotrun.decide.view import FINISHED, View

AGAIN_SECONDS = 60.0
"""A notice that lasts longer is worth another checkpoint."""


def order_checkpoint(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Ask for a checkpoint before a suspension, and before more leave than a world can spare."""
    if status.phase in FINISHED or view.job.spec.checkpoint is None or not training(status):
        return status
    last = status.orders.time.datetime if status.orders is not None else None
    if since := holds_since(status, ConditionType.SUSPENDED):
        is_due = last is None or last < since
    else:
        is_due = _leaves_too_few(view, status) and (
            last is None or view.now - last >= timedelta(seconds=AGAIN_SECONDS)
        )
    if not is_due:
        return status
    count = (status.orders.checkpoint if status.orders is not None else 0) + 1
    return status.model_copy(update={"orders": Orders(checkpoint=count, time=Time.of(view.now))})


def _leaves_too_few(view: View, status: TrainingJobStatus) -> bool:
    if all(w.serial in view.staying_serials for w in members(view, status)):
        return False
    rest = sum(worker.is_ready or worker.serial in training(status) for worker in view.staying)
    return not largest(view.job.spec.workers, rest)
