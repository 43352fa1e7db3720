"""The plan for a size: how much of each capacity, and which workers stay only until it is there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.placement import CapacityPolicy, Zones
from spotrun.policies.placement.capacity_swap import given_back, given_up, returnable
from spotrun.policies.placement.on_demand_need import ExpectedSpot, Needs, needs
from spotrun.policies.placement.pool_choice import acceptable, shares
from spotrun.policies.placement.replica_homes import Options, places_by_replica
from spotrun.policies.placement.replica_moves import NO_MOVES, Moves, moves
from spotrun.policies.placement.supply import (
    StayingWorkers,
    Supply,
    offered,
    patience_seconds,
    staying_workers,
    supply,
    waits_seconds,
)
from spotrun.state.actions import Placed
from spotrun.state.job_state import JobState
from spotrun.state.replicas import Part
from spotrun.state.snapshot import Worker
from spotrun.state.view import View

_NONE, _NOWHERE = Needs(0), Supply()


@dataclass(frozen=True)
class Plan:
    """The number of workers without a node to have of each capacity, and which are replaced."""

    now: StayingWorkers  # without workers whose whole replica is replaced
    spot: int = 0
    stable: int = 0
    swapped: frozenset[int] = frozenset()  # workers that other capacity replaces
    moves: Moves = NO_MOVES
    needs: Needs = _NONE
    supply: Supply = _NOWHERE

    @property
    def leaving(self) -> frozenset[int]:
        """Return the workers that train until a replacement is ready."""
        return self.swapped | self.moves.leaving


def plan(view: View, status: JobState, size: int) -> Plan:
    """Distribute the places of a world of that size over kinds of capacity."""
    return view.once(("plan", size), depends_on(status), lambda: _plan(view, status, size))


def depends_on(status: JobState) -> tuple[object, ...]:
    """Return the parts of a status on which a plan depends."""
    return (status.pace, status.progress, status.checkpoint, status.world, status.unused)


def retiring(view: View, status: JobState, size: int) -> frozenset[int]:
    """Return the workers that train only until a replacement from elsewhere is ready."""
    if not view.job.market.pools:
        return frozenset()
    return plan(view, status, size).leaving


def remaining(view: View, status: JobState, size: int) -> list[Worker]:
    """Return the workers that stay, without those that leave once a replacement is ready."""
    going = retiring(view, status, size)
    return [worker for worker in view.staying if worker.worker_id not in going]


def why_forbidden(view: View) -> str:
    """Return why no node may be asked for; empty if one may."""
    return offered(view).forbidden


def asked_for(
    view: View, found: Plan, parts: Sequence[Part], *, is_stable: bool
) -> list[tuple[Part, Placed]]:
    """Return the pools for these parts of replicas; fewer where limits allow no more."""
    if not parts:
        return []
    available = found.supply
    ranked = list(available.stable if is_stable else available.spot)
    capacity = Capacity.ON_DEMAND if is_stable else Capacity.SPOT
    if not acceptable(view, ranked):  # no such pool is known, but an autoscaler may know one
        return [(part, Placed(capacity=capacity)) for part in parts]
    options = Options(ranked, capacity, shares(view))
    asked = places_by_replica(view, options, parts, found.moves.away)
    if available.knows_spot or options.taken.are_limited or not _is_plain(view, available):
        return asked
    # An unknown node group that has no nodes may be cheaper than all known pools.
    return [
        (part, replace(one, required=(), pinned=False, capacity=None, zone=""))
        for part, one in asked
    ]


def _plan(view: View, status: JobState, size: int) -> Plan:
    everybody = staying_workers(view)
    available = supply(view, status, size - everybody.num_placed)
    moved = NO_MOVES
    if view.job.effective_workers.per_replica > 1:
        needed = _needed(view, status, size, everybody, available)
        stable_missing = needed.stable - len(everybody.stable)
        moved = moves(view, status, size, available, stable_missing=stable_missing)
    now = everybody.without(moved.leaving | moved.in_vain)
    if available.is_empty:
        return Plan(now, moves=moved, supply=available)
    needed = _needed(view, status, size, now, available)
    old = returnable(view, status, size, now, available)
    swapped = given_up(view, status, size, now, needed) or given_back(
        view, now, needed, old, available
    )
    open_places = max(size - now.num_placed + len(swapped), 0)
    staying = sum(worker.worker_id not in swapped for worker in now.stable)
    stable = min(max(needed.stable - staying, 0), open_places)
    return Plan(now, open_places - stable, stable, swapped, moved, needed, available)


def _needed(
    view: View, status: JobState, size: int, now: StayingWorkers, available: Supply
) -> Needs:
    """Return the needed stable workers: whole replicas, and no more than the budget can pay."""
    old = returnable(view, status, size, now, available)
    expected = _expected_spot(view, size, now, available, len(old))
    needed = needs(view, status, available, now, expected)
    apart = view.job.effective_workers.per_replica
    stable = min(-(-needed.stable // apart) * apart, max(size, needed.stable))
    most = view.max_stable_workers
    return replace(needed, stable=stable if most is None else min(stable, most))


def _expected_spot(
    view: View, size: int, now: StayingWorkers, available: Supply, returnable: int
) -> ExpectedSpot:
    """Return how many nodes spot may still give: none if it is dry or a wait for it was in vain."""
    is_over = any(
        waits_seconds(view, worker) >= patience_seconds(view, worker)
        for worker in now.waiting_for_spot
    )
    if is_over or not available.has_spot_now:
        return ExpectedSpot(size, 0)
    return ExpectedSpot(size, max(size - now.num_placed, 0) + returnable)


def _is_plain(view: View, available: Supply) -> bool:
    """Whether all workers may go anywhere: the places differ only in price."""
    placement = view.job.spec.placement
    if placement.capacity is not CapacityPolicy.MIXED or placement.zones is Zones.SINGLE:
        return False
    return len({one.pool.accelerator for one in available.stable}) == 1
