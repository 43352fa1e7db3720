"""Settling: an ended worker's cost is added to the sums once, together with its number.

One conditional status write does both; only then the pod's finalizer goes. A number that is settled
is never charged and never made again.
"""

from spotrun.api.status import TrainingJobStatus
from spotrun.decide.actions import Release
from spotrun.decide.serials import numbers, union
from spotrun.decide.sizes import wanted
from spotrun.decide.view import View, holds_back


def settle(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Settle the workers that have ended, and the numbers that are owed but no longer wanted."""
    known = numbers(status.settled)
    ended = [
        worker.serial
        for worker in view.job.workers
        if worker.serial not in known
        and worker.serial in view.ends
        and view.ends[worker.serial].is_final
    ]
    surplus = _owed_in_vain(view, status)
    if not ended and not surplus:
        return status
    settled = union(status.settled, (*ended, *surplus))
    return status.model_copy(update={"settled": settled})


def releases(view: View, status: TrainingJobStatus) -> tuple[Release, ...]:
    """Let go of the pods whose numbers are settled."""
    settled = numbers(status.settled)
    return tuple(
        Release(worker.serial, worker.pod.uid)
        for worker in view.job.workers
        if worker.pod.metered and worker.serial in settled
    )


def owed(view: View, status: TrainingJobStatus) -> tuple[int, ...]:
    """The numbers that were given out, are not settled and have no pod: to be made (again)."""
    given_out = status.next_serial or 0
    settled = numbers(status.settled)
    if len(settled) + len(view.by_serial) == given_out and settled.isdisjoint(view.by_serial):
        return ()
    return tuple(n for n in range(given_out) if n not in settled and n not in view.by_serial)


def _owed_in_vain(view: View, status: TrainingJobStatus) -> tuple[int, ...]:
    """Numbers whose pods were never made and are not wanted any more cost nothing."""
    open_numbers = owed(view, status)
    if not open_numbers:
        return ()
    wants = 0 if holds_back(status) else max(wanted(view.job.spec.workers) - len(view.staying), 0)
    return open_numbers[wants:]
