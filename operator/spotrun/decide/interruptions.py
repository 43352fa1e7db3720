"""Interruptions: workers that the platform took away, counted in the write that settles them."""

from spotrun.api.names import ConditionType, Reason
from spotrun.api.status import Interruption, Interruptions, TrainingJobStatus
from spotrun.api.values import Time
from spotrun.decide.crew import training
from spotrun.decide.ledger import holds_since, state
from spotrun.decide.serials import numbers
from spotrun.decide.sizes import wanted
from spotrun.decide.view import View, holds_back


def count_interruptions(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Count those workers that this status settles and the stored one did not."""
    if status.settled == view.job.status.settled:
        return status
    new = numbers(status.settled) - numbers(view.job.status.settled)
    taken = [n for n in sorted(new) if n in view.ends and view.ends[n].is_interruption]
    if not taken:
        return status
    known = status.interruptions or Interruptions()
    worker, cause = view.by_serial[taken[-1]], view.ends[taken[-1]].cause or Reason.NODE_LOST
    last = Interruption(
        time=Time.of(view.now),
        worker=taken[-1],
        reason=cause.value,
        pool=(worker.node.pool or None) if worker.node is not None else None,
        node=worker.pod.node,
    )
    counted = known.model_copy(update={"count": (known.count or 0) + len(taken), "last": last})
    status = status.model_copy(update={"interruptions": counted})
    if holds_back(status):
        return status
    message = f"{cause.purpose}: {worker.pod.name} is replaced"
    return state(view, status, ConditionType.INTERRUPTED, cause, message, holds=True)


def end_interruption(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Say that what was taken is replaced, or no longer wanted."""
    kind = ConditionType.INTERRUPTED
    if holds_since(status, kind) is None:
        return status
    whole = len(training(status)) >= wanted(view.job.spec.workers)
    if not whole and not holds_back(status):
        return status
    message = "as many workers as wanted train" if whole else "no workers are wanted"
    return state(view, status, kind, Reason.TRAINING, message, holds=False)
