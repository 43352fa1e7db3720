"""The workers there should be: numbers for new ones, and who has to go."""

from spotrun.api.names import Reason
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.actions import Create, Remove
from spotrun.decide.failures import waits_for_retry
from spotrun.decide.settle import owed
from spotrun.decide.sizes import wanted
from spotrun.decide.snapshot import Worker
from spotrun.decide.view import View, holds_back


def give_numbers(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Give out a number for every worker that is missing; the pods are made once this is stored.

    A worker under notice is replaced while it still trains, so for a while there may be more
    workers than `max`.
    """
    missing = _wants(view, status) - len(view.staying) - len(owed(view, status))
    if missing <= 0:
        return status
    return status.model_copy(update={"next_serial": (status.next_serial or 0) + missing})


def creations(view: View, status: TrainingJobStatus) -> tuple[Create, ...]:
    """Make the workers whose numbers are given out, new ones and such that were never made."""
    if waits_for_retry(view, status):
        return ()
    return tuple(Create(serial) for serial in owed(view, status))


def removals(view: View, status: TrainingJobStatus) -> tuple[Remove, ...]:
    """Remove the workers that are not wanted, once no world counts on them."""
    lost = [
        _remove(worker, view.ends[worker.serial].cause or Reason.NODE_LOST, "it does not answer")
        for worker in view.job.workers
        if worker.serial in view.ends
        and not view.ends[worker.serial].is_final
        and not worker.pod.deleting
    ]
    if holds_back(status):
        return (*lost, *(_remove(worker, *_why_all_go(status)) for worker in view.alive))
    free = [worker for worker in view.alive if worker.serial not in counted_on(status)]
    called_away = [_remove(w, *_why_it_goes(w)) for w in free if w not in view.staying]
    surplus = max(len(view.staying) - _wants(view, status), 0)
    spare = sorted((w for w in free if w in view.staying), key=_least_useful_first)
    too_many = [
        _remove(worker, Reason.RESIZING, "the job needs fewer workers")
        for worker in spare[:surplus]
    ]
    return (*lost, *called_away, *too_many)


def counted_on(status: TrainingJobStatus) -> frozenset[int]:
    """The members of the world, and of the one that trains until it is entered."""
    world = status.world
    if world is None:
        return frozenset()
    still_training = world.trained.numbers if world.trained and not world.switch else ()
    return frozenset((*world.members.numbers, *still_training))


def _wants(view: View, status: TrainingJobStatus) -> int:
    return 0 if holds_back(status) or view.job.deleting else wanted(view.job.spec.workers)


def _least_useful_first(worker: Worker) -> tuple[bool, bool, int]:
    return (worker.is_ready, worker.pod.node is not None, -worker.serial)


def _why_all_go(status: TrainingJobStatus) -> tuple[Reason, str]:
    if status.suspended_by:
        return Reason.SUSPENDED_BY_USER, f"the job is suspended by {', '.join(status.suspended_by)}"
    return Reason.COMPLETED, f"the job has {status.phase}"


def _why_it_goes(worker: Worker) -> tuple[Reason, str]:
    if worker.node is not None and worker.node.leaves_at is not None:
        return Reason.RECLAIMED, f"node {worker.node.name} goes away, and no world needs it"
    return Reason.TEMPLATE_CHANGED, "it was made from an older template"


def _remove(worker: Worker, reason: Reason, why: str) -> Remove:
    return Remove(worker.serial, worker.pod.uid, reason, why)
