"""The capacity each worker comes from: how much is stable, which go back to spot, and when.

Pacing says how many stable (on-demand or reserved) workers are needed; the rest is spot. A worker
is replaced without a stall: the old worker trains until the new one is ready.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import Reason
from spotrun.policies.placement.capacity_swap import stays_wake_after_seconds
from spotrun.policies.placement.free_capacity import seconds_until_none_rests
from spotrun.policies.placement.plan import (
    Plan,
    asked_for,
    depends_on,
    plan,
    remaining,
    why_forbidden,
)
from spotrun.policies.placement.pool_choice import acceptable
from spotrun.policies.placement.ranking import describe
from spotrun.policies.placement.replica_homes import homes
from spotrun.policies.placement.supply import (
    offered,
    patience_seconds,
    scheduler_seconds_left,
    staying_workers,
    waits_seconds,
)
from spotrun.policies.placement.withdrawals import withdrawals
from spotrun.state.actions import Placed
from spotrun.state.job_state import JobState
from spotrun.state.replicas import Part, by_slot, new_parts
from spotrun.state.sizes import largest
from spotrun.state.view import View

_FORBIDDEN_SECONDS = 60.0
"""Prices and labels of pools change seldom."""


def missing(view: View, status: JobState, size: int) -> tuple[Placed, ...]:
    """Return the places from which missing workers must be asked, stable ones first."""
    return tuple(place for _, place in missing_parts(view, status, size))


def missing_parts(view: View, status: JobState, size: int) -> Sequence[tuple[Part, Placed]]:
    """Return the same with the part of a replica that each of them will hold."""
    what, parts = ("missing parts", size), depends_on(status)
    return view.once(what, parts, lambda: _missing_parts(view, status, size))


def _missing_parts(view: View, status: JobState, size: int) -> list[tuple[Part, Placed]]:
    if why_forbidden(view):
        return []
    too_many = _in_full_slots(view, status, size)
    found = plan(view, status, size + too_many)
    if found.supply.is_empty:
        number = max(size + too_many - found.now.number, 0)
        return [(p, _of_no_pool(view, p)) for p in parts_to_come(view, status, size, number)]
    stable, spot = _short_of(found)
    parts = parts_to_come(view, status, size, stable + spot)
    asked = [
        *asked_for(view, found, parts[:stable], is_stable=True),
        *asked_for(view, found, parts[stable:], is_stable=False),
    ]
    refused = stable + spot - len(asked)
    reached = size - max(refused - len(found.swapped), 0)  # workers that leave are still there
    useless = _of_no_use(view, reached) if refused else 0
    return asked[: max(len(asked) - useless, 0)]


def parts_to_come(view: View, status: JobState, size: int, number: int) -> list[Part]:
    """Return the parts that so many new workers hold, beside the workers that stay."""
    if view.job.effective_workers.per_replica == 1:
        return [Part(0)] * number
    taken_back = {one.worker_id for one in withdrawals(view, status, size)}
    there = remaining(view, status, size)
    staying = [worker for worker in there if worker.worker_id not in taken_back]
    return new_parts(staying, view.job.effective_workers, number)


def _short_of(found: Plan) -> tuple[int, int]:
    """Return how many workers to create on stable capacity, and how many on spot."""
    now = found.now
    any_left = len(now.waiting_for_any)
    short_of_stable = max(found.stable - len(now.waiting_for_stable), 0)
    filled = min(any_left, short_of_stable)
    spot = max(found.spot - len(now.waiting_for_spot) - (any_left - filled), 0)
    return short_of_stable - filled, spot


def _of_no_pool(view: View, part: Part) -> Placed:
    """Return the place of a worker that no known pool can take."""
    home = homes(view).get(part.replica) if part.replica is not None else None
    place = Placed(capacity=Capacity.ON_DEMAND if offered(view).excludes_spot else None)
    return place if home is None else replace(place, near=home.near)


def _of_no_use(view: View, number: int) -> int:
    """Return how many of so many workers are beyond the largest size that can train."""
    usable = largest(view.job.effective_workers, number)
    return number - usable if usable else 0


def _in_full_slots(view: View, status: JobState, size: int) -> int:
    """Return how many workers hold a part of the model that enough others hold as well.

    They fill no place, but they may hold the state: they cannot leave before there is a world
    without them.
    """
    workers = view.job.effective_workers
    if workers.per_replica == 1:
        return 0
    slots = by_slot(remaining(view, status, size), workers)
    return sum(max(len(slot) - size // workers.per_replica, 0) for slot in slots)


def why_placed(view: View, status: JobState, size: int) -> tuple[Reason, str]:
    """Return which pools are asked for new workers and why, in one line with the prices."""
    if not view.job.market.pools:
        return Reason.PLACED, ""
    found = plan(view, status, size)
    if found.supply.is_empty:
        return Reason.PLACED, why_no_pool(view, status, size)
    if found.moves.why:
        return Reason.REPLICA_MOVED, found.moves.why
    spot = acceptable(view, list(found.supply.spot))
    stable = acceptable(view, list(found.supply.stable))
    first, other = (stable, spot) if found.stable else (spot, stable)
    reason = Reason.BACK_TO_SPOT if found.swapped and found.spot else found.needs.reason
    words = describe(first, other)
    return reason, f"{words} ({found.needs.why})" if found.stable and found.needs.why else words


def why_no_pool(view: View, status: JobState, size: int) -> str:
    """Return why no known pool can take a worker; empty if one can, or if none is known."""
    why = plan(view, status, size).supply.why_none if view.job.market.pools else ""
    return f"no known pool can take a worker: {why}" if why else ""


def why_moved(view: View, status: JobState, size: int) -> str:
    """Return why a replica moves, or cannot; empty if none lacks capacity."""
    return plan(view, status, size).moves.why if view.job.market.pools else ""


def fallback_wake_after_seconds(view: View, status: JobState, size: int) -> float | None:
    """Return when stable workers will be needed, if nothing happens until then."""
    if not view.job.market.pools or why_forbidden(view):
        return None
    return plan(view, status, size).needs.wake_after_seconds


def placement_wake_after_seconds(view: View, status: JobState, size: int) -> float | None:
    """Return when the placement may change by time alone."""
    if size and why_forbidden(view):
        return _FORBIDDEN_SECONDS
    if not view.job.market.pools or not size:
        return None
    found, now = plan(view, status, size), staying_workers(view)
    waiting = (*now.waiting_for_spot, *now.waiting_for_stable)
    waits = [found.needs.wake_after_seconds]
    waits += [patience_seconds(view, worker) - waits_seconds(view, worker) for worker in waiting]
    waits += [scheduler_seconds_left(view, worker) for worker in waiting]
    waits.append(seconds_until_none_rests(view))
    waits += stays_wake_after_seconds(view, status, now.stable)
    waits += [
        (pool.retry_at - view.now) / timedelta(seconds=1)
        for pool in view.job.market.pools
        if pool.retry_at is not None and (waiting or now.stable)
    ]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)
