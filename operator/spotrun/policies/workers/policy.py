"""The workers that a job should have: numbers for new ones, and which ones must go."""

from collections.abc import Iterable
from dataclasses import replace

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import Reason
from spotrun.policies.failures.node_blame import nodes_to_avoid
from spotrun.policies.failures.node_rejections import waits_after_rejection
from spotrun.policies.failures.policy import waits_for_retry
from spotrun.policies.lifecycle.suspension import why_suspended
from spotrun.policies.placement.plan import plan, remaining, retiring
from spotrun.policies.placement.policy import (
    missing,
    missing_parts,
    placement_wake_after_seconds,
    why_placed,
)
from spotrun.policies.placement.queueing.gang import gives_back, must_wait
from spotrun.policies.placement.queueing.kueue import room
from spotrun.policies.placement.queueing.partial_capacity_status import (
    asks_for_fewer,
    waits_before_asking_again,
)
from spotrun.policies.placement.replica_moves import NO_MOVES
from spotrun.policies.placement.withdrawals import withdrawals
from spotrun.policies.policy import Policy
from spotrun.policies.workers.device_claims import lacks_processes
from spotrun.policies.workers.lending import lent
from spotrun.policies.workers.node_avoidance import avoided, kept_away_in_vain
from spotrun.policies.workers.settlement import owed
from spotrun.policies.workers.volume_check import is_refused
from spotrun.state.actions import Create, Remove, Withdraw
from spotrun.state.conditions import read_reason, record
from spotrun.state.job_state import JobState
from spotrun.state.replicas import by_replica, by_slot
from spotrun.state.snapshot import Worker
from spotrun.state.view import View, holds_back, leaves_at, target_size
from spotrun.state.world_members import counted_on, relied_on

_Use = tuple[bool, bool, bool, bool, int]
_OF_NO_USE = "no other workers came with which it could train"


def give_numbers(view: View, status: JobState) -> JobState:
    """Give out a number for every missing worker; the pods are created once this is stored.

    A worker under notice is replaced while it still trains, so for a while there may be more
    workers than `max`.
    """
    size = size_for_now(view, status)
    new = len(missing(view, status, size)) - len(owed(view, status)) if size else 0
    if new <= 0:
        return status
    status = replace(status, next_worker_id=(status.next_worker_id or 0) + new)
    reason, why = why_placed(view, status, size)
    return record(view, status, reason.value, why, {"workers": str(new)}) if why else status


def size_for_now(view: View, status: JobState) -> int:
    """Return how many workers there may be for now: none while the job has to wait."""
    if must_wait(view, status) or is_refused(view, status):
        return 0
    return 0 if lacks_processes(view, status) else target_size(view, status)


def workers_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when workers may be missing, or placed elsewhere, without any event."""
    return placement_wake_after_seconds(view, status, size_for_now(view, status))


def creations(view: View, status: JobState) -> tuple[Create, ...]:
    """Create the workers whose numbers are given out: new ones, and ones that were never created.

    A member whose pod has vanished is created again only when no world relies on it any more: the
    new pod has nothing of the old one's state.
    """
    size = size_for_now(view, status)
    if not size or waits_for_retry(view, status) or waits_after_rejection(view, status):
        return ()
    new = [worker_id for worker_id in owed(view, status) if worker_id not in relied_on(status)]
    new = new[: room(view)]
    if not new:
        return ()
    nodes, begun = avoided(view, status), dict[int, int]()
    made = []
    for worker_id, (part, place) in zip(new, missing_parts(view, status, size), strict=False):
        replica = part.replica
        if replica is not None and replica < 0:  # it is named by the first of its workers
            replica = begun.setdefault(replica, worker_id)
        made.append(Create(worker_id, nodes, place, part.slot, replica))
    return lent(view, made)


def removals(view: View, status: JobState) -> tuple[Remove | Withdraw, ...]:
    """Remove the workers that are not wanted, once no world relies on them."""
    gone = [remove for remove in _leaving(view, status) if not _is_going(view, remove)]
    known, size = {remove.worker_id for remove in gone}, size_for_now(view, status)
    taken = [*withdrawals(view, status, size), *kept_away_in_vain(view, status)] if size else []
    once = {one.worker_id: one for one in taken if one.worker_id not in known}
    return (*gone, *once.values())


def _leaving(view: View, status: JobState) -> Iterable[Remove]:
    yield from _fenced(view, status)
    if holds_back(status):
        yield from (_remove(worker, *_why_all_go(status)) for worker in view.alive)
        return
    if must_wait(view, status):
        why = _why_it_waits(view, status)
        yield from (_remove(worker, *why) for worker in view.alive)
        return
    inside = counted_on(status)
    free = [worker for worker in view.alive if worker.worker_id not in inside]
    yield from (
        _remove(w, *_why_it_goes(view, w))
        for w in free
        if w.worker_id not in view.staying_worker_ids
    )
    yield from _surplus(view, status)


def _surplus(view: View, status: JobState) -> Iterable[Remove]:
    """Return the workers that are replaced by other capacity, and the surplus ones."""
    needed = relied_on(status)  # joining workers of a prepared world may be surplus
    size = size_for_now(view, status)
    replaced = retiring(view, status, size)
    free = [worker for worker in view.staying if worker.worker_id not in needed]
    workers, why = view.job.effective_workers, "the job needs fewer workers"
    if asks_for_fewer(status):
        why = _OF_NO_USE
        yield from (_remove(w, Reason.RESIZING, why) for w in free if w.worker_id in replaced)
    else:
        moves = plan(view, status, size).moves if replaced else NO_MOVES
        swapped = replaced - moves.leaving
        yield from (_replaced(worker) for worker in free if worker.worker_id in swapped)
        moved = moves.leaving if moves.may_go else frozenset()
        yield from (_taken_over(worker) for worker in free if worker.worker_id in moved)
    staying = remaining(view, status, size)
    use = _use_of_replicas(view, staying)
    for slot in by_slot(staying, workers):
        surplus = max(len(slot) - size // workers.per_replica, 0)
        spare = sorted(
            (w for w in slot if w.worker_id not in needed),
            key=lambda w: (use.get(w.pod.replica, _use(w)), _use(w)),
        )
        yield from (_remove(worker, Reason.RESIZING, why) for worker in spare[:surplus])


def _use_of_replicas(view: View, those: Iterable[Worker]) -> dict[int | None, _Use]:
    """Return how useful each replica is: as useful as its least useful worker.

    So if there are too many replicas, a whole one is removed.
    """
    replicas = by_replica(those, view.job.effective_workers)
    return {name: min(map(_use, members)) for name, members in replicas.items()}


def _replaced(worker: Worker) -> Remove:
    if _is_spot(worker):
        return _remove(worker, Reason.FALLBACK, "on-demand capacity has taken over")
    return _remove(worker, Reason.BACK_TO_SPOT, "spot capacity has taken over")


def _taken_over(worker: Worker) -> Remove:
    return _remove(worker, Reason.REPLICA_MOVED, "its replica is replaced as a whole elsewhere")


def _fenced(view: View, status: JobState) -> Iterable[Remove]:
    """Return the given-up workers that may still run: one must not return beside its replacement.

    Also return workers that have stopped training while side containers keep their pod and node
    busy. A failure is stored first, because it cannot be read from a pod that is being deleted.
    """
    for worker_id, outcome in view.ends.items():
        worker = view.by_worker_id[worker_id]
        if worker.pod.is_over or (outcome.is_failure and worker_id not in status.failed):
            continue
        reason = Reason.RESIZING if worker.pod.end is None else Reason.COMPLETED
        yield _remove(worker, outcome.cause or reason, outcome.message or "its training has ended")


def _is_going(view: View, remove: Remove) -> bool:
    return view.by_worker_id[remove.worker_id].pod.deleting


def _use(worker: Worker) -> _Use:
    """Return a key by which the least useful worker comes first."""
    pod = worker.pod
    return (not pod.lent, worker.is_ready, pod.node is not None, _is_spot(worker), -pod.worker_id)


def _is_spot(worker: Worker) -> bool:
    return worker.node is not None and worker.node.capacity is Capacity.SPOT


def _why_all_go(status: JobState) -> tuple[Reason, str]:
    if status.suspended_by:
        return why_suspended(status), f"the job is suspended by {', '.join(status.suspended_by)}"
    why = f"the job has {str(status.phase).lower()}"
    return read_reason(status.reason, Reason.COMPLETED), why


def _why_it_waits(view: View, status: JobState) -> tuple[Reason, str]:
    if waits_before_asking_again(status):
        return Reason.WAITING_FOR_CAPACITY, _OF_NO_USE
    if gives_back(view.job, view.now):
        return Reason.QUOTA_EXCEEDED, "the quota has no room for all workers of the smallest world"
    return Reason.WAITING_FOR_GANG, "gangs that are before this one in line need the nodes"


def _why_it_goes(view: View, worker: Worker) -> tuple[Reason, str]:
    if worker.node is not None and leaves_at(worker) is not None:
        return Reason.RECLAIMED, f"node {worker.node.name} goes away, and no world needs it"
    if not view.is_current(worker):
        return Reason.TEMPLATE_CHANGED, "it was created from an older template"
    failure = worker.agent.report.failed if worker.agent is not None else None
    if failure is not None and worker.pod.node in nodes_to_avoid(view.job.status):
        if failure.is_of_device:
            return Reason.FAULTY_DEVICE, f"its device on node {worker.pod.node} is faulty"
        return Reason.EXIT_CODE, f"node {worker.pod.node} is blamed for two failures"
    return Reason.HUNG, "it was late for two worlds"


def _remove(worker: Worker, reason: Reason, why: str) -> Remove:
    return Remove(worker.worker_id, worker.pod.uid, reason, why)


WORKERS = Policy(give_numbers, wake_after_seconds=workers_wake_after_seconds, actions=creations)
