"""A check whether a stored ledger can be true: one written by hand must not fill our memory.

Worker ids are processed one by one, so their count is checked first.
"""

from collections.abc import Iterator

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.status import TrainingJobStatus

MOST_WORKERS = 100_000
"""Ten times the largest job. Replacements are created beside its workers, but never that many."""


def why_impossible(status: TrainingJobStatus) -> str | None:
    """Return what in a status no operator can have written; None if the status may be true."""
    given_out = status.next_worker_id or 0
    settled, settled_end = 0, 0
    if status.settled is not None:
        settled, settled_end = status.settled.ranges.size, status.settled.ranges.end
    if settled_end > given_out:
        return f"status.settled names worker id {settled_end - 1}, but nextWorkerId is {given_out}"
    if given_out - settled > MOST_WORKERS:
        return (
            f"{given_out - settled} of the {given_out} numbers below status.nextWorkerId are not "
            f"in status.settled; no job has more than {MOST_WORKERS} workers"
        )
    for name, worker_ids in _lists(status):
        size = sum(max(last - first + 1, 0) for first, last in worker_ids.intervals)
        if size > MOST_WORKERS:
            return f"status.{name} names {size} workers; no job has more than {MOST_WORKERS}"
        highest = max((last for _, last in worker_ids.intervals), default=-1)
        if highest >= given_out:
            return f"status.{name} names worker id {highest}, but nextWorkerId is {given_out}"
    return None


def _lists(status: TrainingJobStatus) -> Iterator[tuple[str, WorkerIds]]:
    found = {"lost": status.lost, "failed": status.failed}
    if (world := status.world) is not None:
        found |= {
            "world.members": world.members,
            "world.stateHolders": world.state_holders,
            "world.lateWorkers": world.late_workers,
            "world.joiningWorkers": world.joining_workers,
        }
    yield from ((name, worker_ids) for name, worker_ids in found.items() if worker_ids is not None)
    joining_workers = status.restarts.joining_workers if status.restarts is not None else None
    for held in (joining_workers.held or ()) if joining_workers is not None else ():
        yield "restarts.joiningWorkers.held", held.workers
    if (sums := status.accumulators) is not None:
        yield from (("accumulators.rates", rate.workers) for rate in sums.rates or ())
        yield from (("accumulators.ends", end.workers) for end in sums.ends or ())
