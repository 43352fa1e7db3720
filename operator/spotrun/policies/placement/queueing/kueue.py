"""Quota from Kueue: what a job asks for, gives back and releases, through its Workloads.

Each Workload is a request for a number of workers. The first one asks for all wanted workers, and
also accepts the smallest world; to grow, the job asks for the difference with one more, so Kueue
may take back only that part. Quota is released when no pod needs it any more, never before.
"""

from collections.abc import Iterator

from spotrun.api.names import Phase, Reason, SuspendedBy
from spotrun.policies.policy import Policy
from spotrun.state.actions import (
    AcceptEviction,
    AdoptRequest,
    AskQueue,
    FinishRequest,
    LeaveQueue,
    QueueAction,
    ReturnQuota,
)
from spotrun.state.job_state import JobState
from spotrun.state.queue import Queue, Workload
from spotrun.state.sizes import SizeLimit, allowed, smallest, within
from spotrun.state.view import FINISHED, View


def queue_limit(view: View) -> SizeLimit | None:
    """Return the limit on workers that the queue sets: no more than it has admitted."""
    queue = view.job.queue
    if queue is None or queue.workers >= view.limited_size:
        return None
    why = f"queue {queue.name} has admitted {queue.workers} workers"
    return SizeLimit(Reason.QUEUED, workers=queue.workers, why=why)


def room(view: View) -> int | None:
    """Return how many more pods fit into the admitted quota; None if there is no queue."""
    queue = view.job.queue
    return None if queue is None else max(queue.workers - _pods(view), 0)


def queue_actions(view: View, status: JobState) -> Iterator[QueueAction]:
    """Ask for wanted workers, give unused quota back, and release quota that Kueue has taken."""
    queue = view.job.queue
    if queue is None or not queue.api_version:
        return
    if queue.prebuilt:
        yield from _of_other_cluster(view, status, queue)
    elif status.phase in FINISHED:
        yield from _finished(view, status, queue)
    elif set(status.suspended_by or ()) - {SuspendedBy.QUEUE}:
        if not _pods(view):
            yield from map(LeaveQueue, queue.open_requests)
    else:
        yield from taken(view, queue)
        yield from _given_back(view, queue)
        yield from asked(view, queue)


def _of_other_cluster(view: View, status: JobState, queue: Queue) -> Iterator[QueueAction]:
    """Use the one request that another cluster's Kueue has made, and that it deletes itself.

    That request must stay as it is, so the job neither asks for more nor withdraws it.
    """
    yield from (AdoptRequest(one) for one in queue.open_requests if not one.is_owned)
    if status.phase in FINISHED:
        yield from _finished(view, status, queue)
    elif not set(status.suspended_by or ()) - {SuspendedBy.QUEUE}:
        yield from (one for one in taken(view, queue) if isinstance(one, AcceptEviction))
        yield from _given_back(view, queue)


def _finished(view: View, status: JobState, queue: Queue) -> Iterator[QueueAction]:
    if _pods(view):
        return
    for one in queue.open_requests:
        why = status.message or str(status.phase)
        yield FinishRequest(one, status.phase is Phase.SUCCEEDED, why)


def taken(view: View, queue: Queue) -> Iterator[QueueAction]:
    """Release quota that Kueue has taken, or that is for other workers than the job has now.

    The pods may continue only if the other requests have quota for them.
    """
    if _pods(view) > queue.workers:
        return
    for one in queue.open_requests:
        if not one.is_reserved:
            continue
        if one.evicted or not one.is_active:
            yield AcceptEviction(one)
        elif not one.asks_as_now or _is_left_over(view, queue, one):
            yield LeaveQueue(one)


def _is_left_over(view: View, queue: Queue, one: Workload) -> bool:
    """Whether a request holds quota for a part of a world, and Kueue has taken the rest."""
    is_short = queue.workers < smallest(view.job.effective_workers)
    return is_short and bool(one.workers) and not _pods(view)


def _given_back(view: View, queue: Queue) -> Iterator[QueueAction]:
    """Give back admitted quota that is not wanted and has no pod: the newest request first."""
    spare = queue.workers - max(wanted(view), _pods(view))
    if queue.workers < smallest(view.job.effective_workers):
        return
    for one in reversed(queue.open_requests):
        taken = min(spare, one.workers)
        if taken <= 0:
            continue
        spare -= taken
        if taken == one.workers:
            yield LeaveQueue(one)
        else:
            yield ReturnQuota(one, one.given_back + taken)


def asked(view: View, queue: Queue) -> Iterator[QueueAction]:
    """Keep one waiting request for the missing workers, or none if no worker is missing."""
    if any(one.is_reserved and not one.workers for one in queue.open_requests):
        return  # Kueue still checks it, or it is released first
    if queue.priority_class and queue.priority is None:
        return
    has_world = queue.workers >= smallest(view.job.effective_workers)
    held = queue.workers if has_world or _pods(view) else 0
    missing = wanted(view) - held
    waiting = [one for one in queue.open_requests if not one.is_reserved]
    yield from map(LeaveQueue, waiting if missing <= 0 else waiting[1:])
    if missing <= 0:
        return
    least = _least(view, held, missing)
    if not waiting:
        number = max((one.number for one in queue.requests), default=-1) + 1
        yield AskQueue(number, missing, least)
    elif _differs(waiting[0], queue, missing, least):
        yield AskQueue(waiting[0].number, missing, least, waiting[0])


def _differs(one: Workload, queue: Queue, count: int, least: int | None) -> bool:
    asked = (one.count, one.least, one.asks_as_now, one.priority)
    priority = queue.priority if queue.priority_class else one.priority
    return asked != (count, least, True, priority)


def _least(view: View, held: int, missing: int) -> int | None:
    """Return how many more workers the next larger world needs; None if it needs all of them."""
    sizes = allowed(view.job.effective_workers)
    least = next(size for size in sizes if size > held) - held
    return least if least < missing else None


def wanted(view: View) -> int:
    """Return the workers that the job would have if the queue admitted all."""
    limits = (one for one in view.limits if one.reason is not Reason.QUEUED)
    return within(view.job.effective_workers, limits)


def _pods(view: View) -> int:
    """Return the pods that use quota: those that have not ended, also while they are deleted."""
    return sum(not worker.pod.is_over for worker in view.job.workers)


QUEUE = Policy(actions=queue_actions)
