"""Workers whose pod the operator does not see any more: its label was removed or changed.

The operator's caches follow the pods with its label. A pod that has lost this label looks as if it
were gone, while it trains, costs money, and waits for the operator to release it.
"""

from spotrun.state.snapshot import JobSnapshot
from spotrun.state.world_members import counted_on


def hidden(job: JobSnapshot, shown_before: frozenset[int]) -> frozenset[int]:
    """Return the numbers that had a pod, are not settled, and are not seen any more.

    The pod of such a number cannot be gone: the operator's finalizer holds it until settlement.
    """
    status, shown = job.status, {worker.worker_id for worker in job.workers}
    missing = status.settled.missing(status.next_worker_id or 0)
    open_numbers = frozenset(missing) - shown
    if not open_numbers:
        return open_numbers  # the usual case
    priced = status.accumulators.rates.keys()
    return open_numbers & (counted_on(status) | shown_before | priced)
