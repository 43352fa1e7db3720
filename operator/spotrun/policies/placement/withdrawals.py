"""Workers without a node that are withdrawn, because they should come from elsewhere now."""

from collections.abc import Sequence

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import Reason
from spotrun.policies.placement.free_capacity import untried_room
from spotrun.policies.placement.plan import Plan, asked_for, plan, why_forbidden
from spotrun.policies.placement.supply import (
    offered,
    patience_seconds,
    scheduler_seconds_left,
    waits_seconds,
)
from spotrun.state.actions import Withdraw
from spotrun.state.job_state import JobState
from spotrun.state.replicas import Part
from spotrun.state.snapshot import Worker
from spotrun.state.view import View


def withdrawals(view: View, status: JobState, size: int) -> tuple[Withdraw, ...]:
    """Withdraw workers without a node that should come from elsewhere now."""
    waiting = [worker for worker in view.staying if worker.node is None]
    if forbidden := why_forbidden(view):
        return tuple(_withdraw(w, Reason.WAITING_FOR_CAPACITY, forbidden) for w in waiting)
    if not view.job.market.pools or not waiting:
        return ()
    found = plan(view, status, size)
    now = found.now
    if found.supply.is_empty:
        if not offered(view).excludes_spot:
            return ()
        too_dear = (*now.waiting_for_spot, *now.waiting_for_any)
        return tuple(_withdraw(w, Reason.FALLBACK, found.supply.why_none) for w in too_dear)
    no_spot = _youngest(now.waiting_for_spot, len(now.waiting_for_spot) - found.spot)
    no_stable = _youngest(now.waiting_for_stable, len(now.waiting_for_stable) - found.stable)
    in_vain = [worker for worker in waiting if worker.worker_id in found.moves.in_vain]
    enough = "enough workers have a node"
    taken = [
        *(_withdraw(w, Reason.FALLBACK, found.needs.why or enough) for w in no_spot),
        *(_withdraw(w, Reason.BACK_TO_SPOT, "spot capacity is available again") for w in no_stable),
        *(_withdraw(w, Reason.BETTER_POOL, found.moves.why) for w in in_vain),
    ]
    gone = {action.worker_id for action in taken}
    late = (w for w in (*now.waiting_for_spot, *now.waiting_for_stable) if w.worker_id not in gone)
    return (*taken, *(_elsewhere(w) for w in late if _is_better_elsewhere(view, found, w)))


def _is_better_elsewhere(view: View, found: Plan, worker: Worker) -> bool:
    """Whether a worker has waited in vain, and would be asked from other pools now.

    The wait is shorter if one of these has room on its nodes, and its own pools had none.
    """
    is_late = waits_seconds(view, worker) >= patience_seconds(view, worker)
    if not is_late and scheduler_seconds_left(view, worker) > 0:
        return False
    others = _asked_now(view, found, worker).difference(worker.pod.pools)
    if not others or is_late:
        return bool(others)
    room = untried_room(view)
    return any(room[name] > 0 for name in others)


def _asked_now(view: View, found: Plan, worker: Worker) -> frozenset[str]:
    """The pools from which a worker would be asked now; computed once for all similar workers."""
    is_stable = worker.pod.asked is not Capacity.SPOT
    part = Part(worker.pod.slot, worker.pod.replica)

    def look() -> frozenset[str]:
        options = asked_for(view, found, [part], is_stable=is_stable)
        return frozenset(name for _, one in options for name in one.required)

    return view.once(("asked now", is_stable, part.replica), (found,), look)


def _youngest(workers: Sequence[Worker], number: int) -> list[Worker]:
    return sorted(workers, key=lambda worker: -worker.worker_id)[: max(number, 0)]


def _withdraw(worker: Worker, reason: Reason, why: str) -> Withdraw:
    pod = worker.pod
    return Withdraw(pod.worker_id, pod.uid, pod.version, reason, why)


def _elsewhere(worker: Worker) -> Withdraw:
    why = "the worker got no node in time, and other pools may have one"
    return _withdraw(worker, Reason.BETTER_POOL, why)
