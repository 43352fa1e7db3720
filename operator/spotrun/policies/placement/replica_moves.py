"""Moves of whole replicas, if the place of one has no capacity for the workers that it lacks.

Its missing workers then come from elsewhere, or all of it moves, whichever costs less. The old
workers stay until the new replica is ready. A move that has begun is recognised by the replicas:
an incomplete one beside as many complete ones as are wanted is the one that leaves.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from spotrun.api.names import ZONE_LABELS
from spotrun.api.spec.placement import Zones
from spotrun.money.other_costs.transfer import Place
from spotrun.money.units import NO_RATE, UsdPerHour
from spotrun.policies.deadline.course import changeovers
from spotrun.policies.placement.free_capacity import untried_room
from spotrun.policies.placement.pool_choice import is_dry, to_be_had
from spotrun.policies.placement.ranking import Ranked, whereabouts
from spotrun.policies.placement.replica_homes import NOT_AWAY, Away, Home, homes, in_zone
from spotrun.policies.placement.score import link_usd_per_hour
from spotrun.policies.placement.supply import (
    Supply,
    patience_seconds,
    scheduler_seconds_left,
    waits_seconds,
)
from spotrun.state.job_state import JobState
from spotrun.state.replicas import by_replica, by_slot, holds_all
from spotrun.state.snapshot import Worker
from spotrun.state.view import View
from spotrun.state.world_members import training

_SHARDED_SUMS = 3
"""The traffic of a step inside a replica, as a multiple of its gradients, if its workers hold parts
of the weights (FSDP): at least weights forward, weights backward, gradients."""
_LONGEST_HOURS = 24.0
"""The longest time for which traffic is compared with a move: something else changes by then."""
_SAID = 4  # the most reasons that a message names


@dataclass(frozen=True)
class Moves:
    """The replicas that do not stay as they are."""

    leaving: frozenset[int] = frozenset()  # workers of a replica that another one replaces
    may_go: bool = False  # whether that one is ready
    in_vain: frozenset[int] = frozenset()  # workers that wait where there is no capacity
    away: Away = NOT_AWAY  # what does not go to its usual place
    why: str = ""


NO_MOVES = Moves()
"""No moves: each worker of the job holds a whole copy of the model, or no worker is missing."""


@dataclass(frozen=True)
class _Stuck:
    """A replica whose missing workers find no capacity beside the others."""

    replica: int
    placed: Sequence[Worker]
    late: Sequence[Worker]
    home: Home
    best: Ranked  # of the pools elsewhere


def moves(
    view: View, status: JobState, size: int, available: Supply, *, stable_missing: int
) -> Moves:
    """Decide which replicas move; `stable_missing` of the missing workers need stable capacity."""
    workers = view.job.effective_workers
    if workers.per_replica == 1 or not size:
        return NO_MOVES
    replicas = by_replica(view.staying, workers)
    whole = {name for name, one in replicas.items() if holds_all(one, workers)}
    wanted = size // workers.per_replica - _unnamed(view)
    stuck = _stuck(view, replicas, available, is_stable=stable_missing > 0)
    moving = _begun(stuck, whole, wanted)
    targets = frozenset(sorted(replicas)[max(wanted, 0) :])
    away, left, reasons = list[_Stuck](), set[str](), list[str]()
    undecided = [one for one in stuck if one.replica not in moving]
    to_come = _to_come(view, size) + sum(len(o.placed) for o in stuck if o.replica in moving)
    for one in undecided if _is_lacking(view, size) else ():
        to_come += len(one.placed)
        moves_all, why = _is_moved(view, status, one, to_come, is_target=one.replica in targets)
        reasons.append(why)
        if moves_all:
            moving.add(one.replica)
            left |= set() if _may_stay_in_zone(view) else {one.home.zone}
            continue
        to_come -= len(one.placed)
        if not view.job.spec.placement.topology.is_required:
            away.append(one)
    if len(whole - moving) >= wanted:
        moving |= replicas.keys() - whole
    leaving = frozenset(w.worker_id for name in moving for w in replicas[name])
    return Moves(
        leaving,
        _may_go(view, status, size, leaving),
        frozenset(worker.worker_id for one in away for worker in one.late),
        Away(frozenset(one.replica for one in away), frozenset(left)),
        _joined(reasons),
    )


def _unnamed(view: View) -> int:
    """Return how many whole models the workers hold whose (older) pods name no replica."""
    unnamed = (worker for worker in view.staying if worker.pod.replica is None)
    return min(map(len, by_slot(unnamed, view.job.effective_workers)))


def _begun(stuck: Sequence[_Stuck], whole: AbstractSet[int], wanted: int) -> set[int]:
    """Return the stuck replicas whose moves have begun: there are enough others beside them."""
    moving = set[int]()
    left = len(whole)
    for one in stuck:
        others = left - (one.replica in whole)
        if others >= wanted:
            moving.add(one.replica)
            left = others
    return moving


def _is_lacking(view: View, size: int) -> bool:
    """Whether some part of the model has fewer workers with a node than wanted."""
    workers = view.job.effective_workers
    placed = by_slot((worker for worker in view.staying if worker.node is not None), workers)
    return min(map(len, placed)) < size // workers.per_replica


def _may_go(view: View, status: JobState, size: int, leaving: AbstractSet[int]) -> bool:
    """Whether the workers that stay are ready to train without those that leave."""
    workers, here = view.job.effective_workers, set(training(status))
    able = (
        worker
        for worker in view.staying
        if worker.worker_id not in leaving and (worker.is_ready or worker.worker_id in here)
    )
    return min(map(len, by_slot(able, workers))) >= size // workers.per_replica


def _to_come(view: View, size: int) -> int:
    """Return how many nodes are still to come, if no worker leaves."""
    return size - sum(worker.node is not None for worker in view.staying)


def _joined(reasons: Sequence[str]) -> str:
    """Join the first reasons: each of thousands of replicas may have its own numbers."""
    known = list(dict.fromkeys(filter(None, reasons)))
    more = [f"and {len(known) - _SAID} more reasons"] if len(known) > _SAID else []
    return "; ".join([*known[:_SAID], *more])


def _stuck(
    view: View, replicas: dict[int, list[Worker]], available: Supply, *, is_stable: bool
) -> list[_Stuck]:
    found = []
    room = untried_room(view)
    for replica, members in sorted(replicas.items()):
        home = homes(view).get(replica)
        placed = [worker for worker in members if worker.node is not None]
        if home is None or holds_all(placed, view.job.effective_workers):
            continue
        waiting = [worker for worker in members if worker.node is None]
        ranked = available.stable if is_stable or not available.spot else available.spot
        inside, there = in_zone(ranked, home.zone), _elsewhere(view, ranked, home)
        with_room = [one for one in there if room[one.pool.name] >= len(members)]
        late = [w for w in waiting if _waits_in_vain(view, w, has_room=bool(with_room))]
        is_lacking = bool(inside) and all(is_dry(view, one.pool) for one in inside)
        if there and (late or is_lacking):
            found.append(_Stuck(replica, placed, late, home, (with_room or there)[0]))
    return found


def _waits_in_vain(view: View, worker: Worker, *, has_room: bool) -> bool:
    """Whether a worker finds no node: known sooner by the scheduler if other pools have room."""
    if waits_seconds(view, worker) >= patience_seconds(view, worker):
        return True
    return has_room and scheduler_seconds_left(view, worker) <= 0


def _elsewhere(view: View, ranked: Sequence[Ranked], home: Home) -> list[Ranked]:
    there = [one for one in ranked if to_be_had(view, one.pool)]
    if _may_stay_in_zone(view):
        return there
    if view.job.spec.placement.zones is Zones.SINGLE:
        return []
    return [one for one in there if home.zone not in one.pool.zones]


def _may_stay_in_zone(view: View) -> bool:
    """Whether the new place may be in the same zone: a required rack, as zones have many racks."""
    topology = view.job.spec.placement.topology
    return topology.is_required and topology.key not in ZONE_LABELS


def _is_moved(
    view: View, status: JobState, stuck: _Stuck, to_come: int, *, is_target: bool
) -> tuple[bool, str]:
    """Return whether the whole replica moves, and why; `to_come` nodes would then come."""
    per_replica = view.job.effective_workers.per_replica
    each = stuck.best.score.usd_per_hour
    there, once_usd = whereabouts(stuck.best), max(_move_usd(view, status, stuck), 0.0)
    where = stuck.home.zone or stuck.home.near.value
    lacking = per_replica - len({worker.pod.slot for worker in stuck.placed})
    said = f"{where} has no capacity for {lacking} of the {per_replica} workers of a replica"
    if is_target:  # otherwise many copies would keep their nodes, and none would be whole
        return False, f"{said}, and the replica does not move: there are enough older replicas"
    if not _can_be_paid(view, status, each * to_come):
        return False, f"{said}, and budget.maxUsdPerHour cannot pay to move the whole replica"
    if view.job.spec.placement.topology.is_required:
        return True, f"{said}: the whole replica moves to {there}"
    split = _split_usd_per_hour(view, status, stuck)
    if split is None:
        why = "because the traffic between its workers is not measured"
        return True, f"{said}: the whole replica moves to {there}, {why}"
    hours = _hours(stuck)
    sums = f"a move costs ${once_usd:.2f}, traffic between zones ${split * hours:.2f}"
    if split * hours < once_usd:
        return False, f"{said}: new ones come from {there}; {sums} in {hours:.0f} h"
    return True, f"{said}: the whole replica moves to {there}; {sums} in {hours:.0f} h"


def _move_usd(view: View, status: JobState, stuck: _Stuck) -> float:
    """Return the cost of both replicas until the new one trains, and its extra price after that."""
    usual_seconds, _ = changeovers(status.pace)
    market, hours = view.job.market, _hours(stuck)
    there = stuck.best.score.usd_per_hour
    pools = [market.pool(worker.node.pool) for worker in stuck.placed if worker.node is not None]
    shares = there / float(stuck.best.pool.usd_per_hour) if stuck.best.pool.usd_per_hour else 1.0
    here = [float(p.usd_per_hour) * shares for p in pools if p is not None and p.usd_per_hour]
    dearer = sum(there - usd for usd in here)
    both = there * view.job.effective_workers.per_replica * usual_seconds / 3600
    return both + dearer * hours


def _split_usd_per_hour(view: View, status: JobState, stuck: _Stuck) -> float | None:
    """Return the cost of traffic in a replica that spans zones; None if it is not measured."""
    sent, step_seconds = view.job.sync_bytes_per_step, float(status.pace.step_seconds or 0)
    if sent is None or not step_seconds:
        return None
    apart = view.job.effective_workers.per_replica
    links = 2  # a ring over two zones crosses twice
    gb_per_step = links * _SHARDED_SUMS * (apart - 1) / apart * sent * apart / 1e9
    region = next((w.node.region for w in stuck.placed if w.node is not None), "")
    best = stuck.best.pool
    other = Place(best.region or region, best.zones[0] if best.zones else "")
    here = Place(region, stuck.home.zone)
    return link_usd_per_hour(here, other, gb_per_step * 3600 / step_seconds)


def _hours(stuck: _Stuck) -> float:
    """Return how long a replica usually stays as it is, until it loses a worker again."""
    rate = stuck.best.score.interruptions_per_hour * (len(stuck.placed) + 1)
    return min(1 / rate, _LONGEST_HOURS) if rate > 0 else _LONGEST_HOURS


def _can_be_paid(view: View, status: JobState, usd_per_hour: float) -> bool:
    """Whether the budget pays for that much more per hour: old and new workers run together."""
    budget = view.job.spec.budget
    if budget is None or budget.max_usd_per_hour is None:
        return True
    book = status.accumulators.rates
    charges = [book[worker.worker_id] for worker in view.alive if worker.worker_id in book]
    now = sum((known[-1].usd_per_hour for known in charges if known), NO_RATE)
    new = UsdPerHour.of(budget.max_usd_per_hour) - now
    return usd_per_hour <= float(new.exact)
