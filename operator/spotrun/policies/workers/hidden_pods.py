"""Workers that have a pod which nobody shows us: somebody took its label off, or changed it.

Caches follow the pods with our label. A pod that has lost it looks like one that is gone, while it
trains, costs, and waits for us to be released.
"""

from spotrun.state.snapshot import JobSnapshot
from spotrun.state.world_members import counted_on


def hidden(job: JobSnapshot, shown_before: frozenset[int]) -> frozenset[int]:
    """Return the numbers that had a pod, are not settled, and are not shown any more.

    The pod of such a number cannot have gone: until it is settled our finalizer holds it.
    """
    status, shown = job.status, {worker.worker_id for worker in job.workers}
    missing = status.settled.missing(status.next_worker_id or 0)
    open_numbers = frozenset(missing) - shown
    if not open_numbers:
        return open_numbers  # as nearly always
    priced = status.accumulators.rates.keys()
    return open_numbers & (counted_on(status) | shown_before | priced)
