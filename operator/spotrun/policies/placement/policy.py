"""The capacity each worker comes from: how much of it stable, who goes back to spot, and when.

Pacing says how many stable (on-demand or reserved) workers are needed; the rest is spot. One takes
over from the other without a stall: the old worker trains until the new one is ready.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import Reason
from spotrun.api.spec.placement import CapacityPolicy, Zones
from spotrun.policies.placement.capacity_swap import (
    given_back,
    given_up,
    returnable,
    stays_wake_after_seconds,
)
from spotrun.policies.placement.free_capacity import untried_room
from spotrun.policies.placement.on_demand_need import ExpectedSpot, Needs, needs
from spotrun.policies.placement.pool_choice import acceptable, places, shares
from spotrun.policies.placement.ranking import describe
from spotrun.policies.placement.supply import (
    StayingWorkers,
    Supply,
    offered,
    patience_seconds,
    scheduler_seconds_left,
    staying_workers,
    supply,
    waits_seconds,
)
from spotrun.state.actions import Placed, Withdraw
from spotrun.state.job_state import JobState
from spotrun.state.replicas import by_slot
from spotrun.state.sizes import largest
from spotrun.state.snapshot import Worker
from spotrun.state.view import View

_NONE, _NOWHERE = Needs(0), Supply()
_FORBIDDEN_SECONDS = 60.0
"""Prices and labels of pools change seldom."""


@dataclass(frozen=True)
class Plan:
    """The number of workers without a node to have of each capacity, and who is replaced."""

    spot: int = 0
    stable: int = 0
    leaving: frozenset[int] = frozenset()  # who train until their replacements are ready
    needs: Needs = _NONE
    supply: Supply = _NOWHERE


def plan(view: View, status: JobState, size: int) -> Plan:
    """Share out the positions of a world of that size."""
    parts = (status.pace, status.progress, status.checkpoint, status.world, status.unused)
    return view.once(("plan", size), parts, lambda: _plan(view, status, size))


def _plan(view: View, status: JobState, size: int) -> Plan:
    now = staying_workers(view)
    available = supply(view, status, size - now.num_placed)
    if available.is_empty:
        return Plan(supply=available)
    old = returnable(view, status, size, now, available)
    needed = _within_rate(
        view,
        needs(view, status, available, now, _expected_spot(view, size, now, available, len(old))),
    )
    leaving = given_up(view, status, size, now, needed) or given_back(now, needed, old)
    open_places = max(size - now.num_placed + len(leaving), 0)
    staying = sum(worker.worker_id not in leaving for worker in now.stable)
    stable = min(max(needed.stable - staying, 0), open_places)
    return Plan(open_places - stable, stable, leaving, needed, available)


def _within_rate(view: View, needed: Needs) -> Needs:
    """No more on capacity that stays than budget.maxUsdPerHour can pay."""
    most = view.max_stable_workers
    return needed if most is None else replace(needed, stable=min(needed.stable, most))


def missing(view: View, status: JobState, size: int) -> tuple[Placed, ...]:
    """Return where missing workers are to be asked from, stable ones first."""
    if why_forbidden(view):
        return ()
    too_many = _in_full_slots(view, status, size)
    size += too_many
    now, found = staying_workers(view), plan(view, status, size)
    if found.supply.is_empty:
        return (_of_no_pool(view),) * max(size - len(view.staying), 0)
    any_left = len(now.waiting_for_any)
    short_of_stable = max(found.stable - len(now.waiting_for_stable), 0)
    filled = min(any_left, short_of_stable)
    stable = short_of_stable - filled
    spot = max(found.spot - len(now.waiting_for_spot) - (any_left - filled), 0)
    asked = (
        *_places(view, found.supply, stable, is_stable=True),
        *_places(view, found.supply, spot, is_stable=False),
    )
    refused = stable + spot - len(asked)
    reached = size - too_many - max(refused - len(found.leaving), 0)  # who leaves is there yet
    useless = _of_no_use(view, reached) if refused else 0
    return asked[: max(len(asked) - useless, 0)]


def _of_no_pool(view: View) -> Placed:
    """Return where a worker may be that no known pool can take."""
    return Placed(capacity=Capacity.ON_DEMAND if offered(view).excludes_spot else None)


def _of_no_use(view: View, number: int) -> int:
    """Return how many of so many could not train, where limits of pools or zones allow no more."""
    usable = largest(view.job.effective_workers, number)
    return number - usable if usable else 0


def why_forbidden(view: View) -> str:
    """Why no node may be asked for; empty if one may."""
    return offered(view).forbidden


def _in_full_slots(view: View, status: JobState, size: int) -> int:
    """Return how many hold a part of the model that enough others hold: they fill no place.

    They may hold the state, too, so that they cannot go before there is a world without them.
    """
    workers = view.job.effective_workers
    if workers.per_replica == 1:
        return 0
    slots = by_slot(remaining(view, status, size), workers)
    return sum(max(len(slot) - size // workers.per_replica, 0) for slot in slots)


def retiring(view: View, status: JobState, size: int) -> frozenset[int]:
    """Return who trains only until a replacement from other capacity is ready."""
    if not view.job.market.pools:
        return frozenset()
    return plan(view, status, size).leaving


def remaining(view: View, status: JobState, size: int) -> list[Worker]:
    """Return the workers that stay, and for longer than until a replacement is ready."""
    going = retiring(view, status, size)
    return [worker for worker in view.staying if worker.worker_id not in going]


def withdrawals(view: View, status: JobState, size: int) -> tuple[Withdraw, ...]:
    """Take back workers without a node that are wanted from elsewhere now."""
    if forbidden := why_forbidden(view):
        waiting = (worker for worker in view.staying if worker.node is None)
        return tuple(_withdraw(w, Reason.WAITING_FOR_CAPACITY, forbidden) for w in waiting)
    if not view.job.market.pools or staying_workers(view).num_placed == len(view.staying):
        return ()
    now, found = staying_workers(view), plan(view, status, size)
    if found.supply.is_empty:
        if not offered(view).excludes_spot:
            return ()
        too_dear = (*now.waiting_for_spot, *now.waiting_for_any)
        return tuple(_withdraw(w, Reason.FALLBACK, found.supply.why_none) for w in too_dear)
    no_spot = _youngest(now.waiting_for_spot, len(now.waiting_for_spot) - found.spot)
    no_stable = _youngest(now.waiting_for_stable, len(now.waiting_for_stable) - found.stable)
    enough = "enough workers have a node"
    taken = [
        *(_withdraw(w, Reason.FALLBACK, found.needs.why or enough) for w in no_spot),
        *(_withdraw(w, Reason.BACK_TO_SPOT, "spot capacity is available again") for w in no_stable),
    ]
    gone = {action.worker_id for action in taken}
    late = (w for w in (*now.waiting_for_spot, *now.waiting_for_stable) if w.worker_id not in gone)
    return (*taken, *(_elsewhere(w) for w in late if _is_better_elsewhere(view, found, w)))


def why_placed(view: View, status: JobState, size: int) -> tuple[Reason, str]:
    """Say which pools are asked for new workers and why, in one line with the prices."""
    if not view.job.market.pools:
        return Reason.PLACED, ""
    found = plan(view, status, size)
    if found.supply.is_empty:
        return Reason.PLACED, why_no_pool(view, status, size)
    spot = acceptable(view, list(found.supply.spot))
    stable = acceptable(view, list(found.supply.stable))
    first, other = (stable, spot) if found.stable else (spot, stable)
    reason = Reason.BACK_TO_SPOT if found.leaving and found.spot else found.needs.reason
    words = describe(first, other)
    return reason, f"{words} ({found.needs.why})" if found.stable and found.needs.why else words


def why_no_pool(view: View, status: JobState, size: int) -> str:
    """Why no known pool can take a worker; empty where one can, or none is known."""
    why = plan(view, status, size).supply.why_none if view.job.market.pools else ""
    return f"no known pool can take a worker: {why}" if why else ""


def fallback_wake_after_seconds(view: View, status: JobState, size: int) -> float | None:
    """Return when workers are needed on capacity that stays, if nothing happens until then."""
    if not view.job.market.pools or why_forbidden(view):
        return None
    return plan(view, status, size).needs.wake_after_seconds


def placement_wake_after_seconds(view: View, status: JobState, size: int) -> float | None:
    """Return when the placement may change though nothing happens."""
    if size and why_forbidden(view):
        return _FORBIDDEN_SECONDS
    if not view.job.market.pools or not size:
        return None
    found, now = plan(view, status, size), staying_workers(view)
    waiting = (*now.waiting_for_spot, *now.waiting_for_stable)
    waits = [found.needs.wake_after_seconds]
    waits += [patience_seconds(view, worker) - waits_seconds(view, worker) for worker in waiting]
    waits += [scheduler_seconds_left(view, worker) for worker in waiting]
    waits += stays_wake_after_seconds(view, status, now.stable)
    waits += [
        (pool.retry_at - view.now) / timedelta(seconds=1)
        for pool in view.job.market.pools
        if pool.retry_at is not None and (waiting or now.stable)
    ]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)


def _places(view: View, available: Supply, number: int, *, is_stable: bool) -> list[Placed]:
    if number <= 0:
        return []
    ranked = acceptable(view, list(available.stable if is_stable else available.spot))
    capacity = Capacity.ON_DEMAND if is_stable else Capacity.SPOT
    if not ranked:  # nobody knows such a pool, but an autoscaler may
        return [Placed(capacity=capacity)] * number
    taken = shares(view)
    found = places(view, ranked, capacity, number, taken)
    if available.knows_spot or taken.are_limited or not _is_plain(view, available):
        return found
    # Some node group without nodes may be cheaper than all that are known.
    return [replace(one, required=(), pinned=False, capacity=None) for one in found]


def _is_plain(view: View, available: Supply) -> bool:
    """Whether all workers may go anywhere: it makes no difference but in price."""
    placement = view.job.spec.placement
    if placement.capacity is not CapacityPolicy.MIXED or placement.zones is Zones.SINGLE:
        return False
    return len({one.pool.accelerator for one in available.stable}) == 1


def _expected_spot(
    view: View, size: int, now: StayingWorkers, available: Supply, returnable: int
) -> ExpectedSpot:
    """Return what spot may still give: nothing where it was awaited in vain, or is dry."""
    is_over = any(
        waits_seconds(view, worker) >= patience_seconds(view, worker)
        for worker in now.waiting_for_spot
    )
    if is_over or not available.has_spot_now:
        return ExpectedSpot(size, 0)
    return ExpectedSpot(size, max(size - now.num_placed, 0) + returnable)


def _is_better_elsewhere(view: View, found: Plan, worker: Worker) -> bool:
    """Whether a worker has waited in vain, and would be asked from other pools now.

    It waits for less long where one of these has room on its nodes, and there was none in its own.
    """
    is_late = waits_seconds(view, worker) >= patience_seconds(view, worker)
    if not is_late and scheduler_seconds_left(view, worker) > 0:
        return False
    is_stable, pools = worker.pod.asked is not Capacity.SPOT, worker.pod.pools
    others = _asked_now(view, found, is_stable=is_stable).difference(pools)
    if not others or is_late:
        return bool(others)
    room = view.once("untried room", (), lambda: untried_room(view))
    return any(room[name] > 0 for name in others)


def _asked_now(view: View, found: Plan, *, is_stable: bool) -> frozenset[str]:
    """The pools from which a worker would be asked now; for thousands that wait they are alike."""

    def look() -> frozenset[str]:
        options = _places(view, found.supply, 1, is_stable=is_stable)
        return frozenset(name for one in options for name in one.required)

    return view.once(("asked now", is_stable), (found,), look)


def _youngest(workers: Sequence[Worker], number: int) -> list[Worker]:
    return sorted(workers, key=lambda worker: -worker.worker_id)[: max(number, 0)]


def _withdraw(worker: Worker, reason: Reason, why: str) -> Withdraw:
    pod = worker.pod
    return Withdraw(pod.worker_id, pod.uid, pod.version, reason, why)


def _elsewhere(worker: Worker) -> Withdraw:
    why = "it waited for a node longer than its pools usually take"
    return _withdraw(worker, Reason.BETTER_POOL, why)
