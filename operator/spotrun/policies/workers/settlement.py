"""Settling: an ended worker's cost is added to the sums once, together with its number.

One conditional status write does both; only then is the pod's finalizer removed. A settled number
is never charged or created again.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from spotrun.money.ledger import Spent
from spotrun.policies.cost.absent_workers import absent, vanished
from spotrun.policies.cost.bill import charged
from spotrun.policies.cost.charges.times import may_still_cost, started_at
from spotrun.policies.cost.spent import priced
from spotrun.policies.placement.policy import missing
from spotrun.policies.policy import Policy
from spotrun.state.actions import Release
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Accumulators
from spotrun.state.view import View, target_size


def settle(view: View, status: JobState) -> JobState:
    """Settle workers that have ended or vanished, and owed numbers that are no longer wanted."""
    return _settled(view, status, _owed_in_vain(view, status))


def settle_ended(view: View, status: JobState) -> JobState:
    """Settle the workers that have ended or vanished, without asking whether others are wanted."""
    return _settled(view, status, ())


def has_ended(view: View, worker: Worker) -> bool:
    """Return whether nothing of a worker runs, costs or comes back any more."""
    end = view.ends.get(worker.worker_id)
    return end is not None and end.is_final and not may_still_cost(view, worker)


def releases(view: View, status: JobState) -> tuple[Release, ...]:
    """Release the pods whose numbers are settled."""
    settled = status.settled
    return tuple(
        Release(worker.worker_id, worker.pod.uid)
        for worker in view.job.workers
        if worker.pod.metered and worker.worker_id in settled
    )


def kill_wake_after_seconds(view: View, _status: JobState) -> float | None:
    """Return when the next pod that is being deleted is killed; None: no pod is."""
    kills = (w.pod.killed_at for w in view.alive if w.pod.deleting and w.pod.killed_at)
    killed_at = min(kills, default=None)
    return None if killed_at is None else (killed_at - view.now).total_seconds()


def owed(view: View, status: JobState) -> tuple[int, ...]:
    """The numbers given out that are not settled and have no pod: they must be created (again)."""
    settled, given_out = status.settled, status.next_worker_id or 0

    def find() -> tuple[int, ...]:
        return tuple(n for n in settled.missing(given_out) if n not in view.by_worker_id)

    return view.once("owed", (settled, status.next_worker_id), find)


def _settled(view: View, status: JobState, surplus: Collection[int]) -> JobState:
    known = status.settled
    ended = [
        worker.worker_id
        for worker in view.job.workers
        if worker.worker_id not in known and has_ended(view, worker)
    ]
    gone = vanished(view, status)
    if not ended and not gone and not surplus:
        return status
    charged = _charged(view, status.accumulators, ended, gone)
    settled = status.settled.union((*ended, *gone, *surplus))
    return replace(status, settled=settled, accumulators=charged)


def _charged(
    view: View, sums: Accumulators, ended: Collection[int], gone: Mapping[int, Spent]
) -> Accumulators:
    """Add workers that have ended to the sums; their prices need not be remembered any more."""
    book, settled = sums.rates, {*ended, *gone}
    present = priced(view, [view.by_worker_id[worker_id] for worker_id in ended], book)
    new = sum(gone.values(), present)
    unpriced_seconds = new.unpriced_seconds + (sums.unpriced_seconds or 0)
    if not book.keys().isdisjoint(settled):
        rates = {n: charges for n, charges in book.items() if n not in settled}
        sums = replace(charged(sums, new), rates=rates)
    if any(
        worker_id not in book and started_at(view.by_worker_id[worker_id]) for worker_id in ended
    ):
        sums = replace(sums, unpriced_seconds=round(unpriced_seconds, 12))
    if not sums.ends.keys().isdisjoint(settled):
        ends = {n: end for n, end in sums.ends.items() if n not in settled}
        sums = replace(sums, ends=ends)
    return sums


def _owed_in_vain(view: View, status: JobState) -> tuple[int, ...]:
    """Return numbers whose pods were never created and are no longer wanted; they cost nothing."""
    open_numbers = owed(view, status)
    if not open_numbers:
        return ()
    size = target_size(view, status)
    surplus = open_numbers[len(missing(view, status, size)) if size else 0 :]
    unseen = absent(view, status)
    return tuple(worker_id for worker_id in surplus if worker_id not in unseen)


SETTLEMENT = Policy(settle, wake_after_seconds=kill_wake_after_seconds, actions=releases)
