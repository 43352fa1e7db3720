"""The pools that new workers are asked from: a set with weights, the best first.

Each rule leaves out pools that the job should not use, and does not apply if it would leave none.
Only the limits of a user or an admin always apply.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.placement import Homogeneous, Zones
from spotrun.policies.placement.free_capacity import (
    believed_room,
    seconds_until_none_rests,
    untried_room,
)
from spotrun.policies.placement.ranking import Ranked, home_zones, main_zone
from spotrun.state.actions import Placed
from spotrun.state.market import PoolFacts
from spotrun.state.sizes import smallest
from spotrun.state.view import View

MOST_POOLS = 16
"""The most pools that a pod names to the scheduler: more would only make the pod longer."""
REST = timedelta(minutes=15)
"""The time after a loss in which the next node is asked from other pools: in recorded markets only
16-28 % of lost capacity is back after 10 minutes, and a loss mostly takes several nodes."""
_WEIGHT = 100
_OTHER_ZONE = 0.5
"""The part of the weight that another zone has while traffic between workers is not measured."""


@dataclass
class Shares:
    """The job's workers in each pool and zone, and how many there may be."""

    size: int
    least: int
    pool_percent: int | None
    zone_percent: int | None
    total: int = 0
    pools: Counter[str] = field(default_factory=Counter)
    zones: Counter[str] = field(default_factory=Counter)
    room: Counter[str] = field(default_factory=Counter)  # on nodes, just promised to others

    @property
    def are_limited(self) -> bool:
        """Whether any limit was set."""
        return self.pool_percent is not None or self.zone_percent is not None

    def add(self, pool: str, zone: str) -> None:
        """Count one more worker."""
        self.total += 1
        self.pools[pool] += 1
        self.zones[zone] += 1

    def excess(self, pool: str, zone: str) -> int:
        """Return by how many one more worker would exceed the limits; a single one never does.

        An unknown zone exceeds no limit of a zone.
        """
        by_pool = self.pools[pool] + 1 - self._most(self.pool_percent)
        return max(by_pool, self.zone_excess(zone), 0)

    def zone_excess(self, zone: str, number: int = 1) -> int:
        """Return by how many so many more workers would exceed the limit of a zone."""
        return max(self.zones[zone] + number - self._most(self.zone_percent), 0) if zone else 0

    def _most(self, percent: int | None) -> int:
        return self.size if percent is None else max(self.size * percent // 100, 1)


def shares(view: View) -> Shares:
    """Return how the job's workers are spread over pools and zones now."""
    placement = view.job.spec.placement
    found = Shares(
        view.limited_size,
        smallest(view.job.effective_workers),
        placement.max_percent_per_pool,
        placement.max_percent_per_zone,
    )
    for worker in view.staying:
        if worker.node is not None:
            found.add(worker.node.pool, worker.node.zone)
        elif len(worker.pod.pools) == 1 and (pool := view.job.market.pool(worker.pod.pools[0])):
            found.add(pool.name, worker.pod.zone or _only_zone(pool))
    return found


def acceptable(view: View, ranked: list[Ranked]) -> list[Ranked]:
    """Return the pools that new workers may be asked from now."""
    ranked = [one for one in ranked if not _is_full(one.pool)]
    for rule in _RULES:
        ranked = rule(view, ranked) or ranked
    return ranked[:MOST_POOLS]


def to_be_had(view: View, pool: PoolFacts) -> bool:
    """Whether a pool seems to have a node for one more worker."""
    return not _is_full(pool) and not is_resting(view, pool)


def is_resting(view: View, pool: PoolFacts) -> bool:
    """Whether a pool was dry when asked, or has just taken nodes away."""
    return is_dry(view, pool) or (pool.available is not True and has_just_lost(view, pool))


def is_dry(view: View, pool: PoolFacts) -> bool:
    """Whether a pool had no node when it was asked, and its retry time has not come yet."""
    if pool.retry_at is not None:
        return view.now < pool.retry_at
    return pool.available is False


def has_just_lost(view: View, pool: PoolFacts) -> bool:
    """Whether a pool took nodes away so recently that it rests."""
    lost = pool.last_interruption_at
    return lost is not None and view.now - lost < REST


def below_on_demand(view: View, spot: list[Ranked], stable: list[Ranked]) -> list[Ranked]:
    """Leave out spot pools whose expected cost is as high as that of on-demand.

    With placement.zones Any, traffic between zones excludes no pool, whatever it costs.
    """
    is_any = view.job.spec.placement.zones is Zones.ANY
    weighed = {one.pool.name: without_traffic(one) if is_any else one for one in (*spot, *stable)}
    known = [weighed[one.pool.name] for one in stable if one.score.is_price_known]
    ceiling = min((one.usd_per_work for one in known), default=None)
    return [one for one in spot if not _is_above(weighed[one.pool.name], ceiling)]


def without_traffic(one: Ranked) -> Ranked:
    """Return the pool as it would be ranked if traffic between zones cost nothing."""
    return replace(one, score=replace(one.score, transfer_usd_per_hour=0.0))


def places(
    view: View, ranked: list[Ranked], capacity: Capacity, number: int, taken: Shares
) -> list[Placed]:
    """Return where so many new workers are asked from; fewer where limits allow no more."""
    slots = room_left(view, taken)
    order = slots if slots.total() > 0 else untried_room(view)
    single = main_zone(view, ranked) if view.job.spec.placement.zones is Zones.SINGLE else ""
    found: list[Placed] = []
    for _ in range(number):
        allowed = _within_limits(ranked, taken, order)
        if not allowed:
            break
        best, zone = allowed[0]
        some = [best] if taken.are_limited or slots[best.pool.name] > 0 else _open(ranked, slots)
        has_room = [one for one in some if slots[one.pool.name] > 0]
        if taken.are_limited or some == has_room[:1]:
            best = some[0]
            one = Placed((best.pool.name,), (), bool(has_room), capacity, zone or single)
        else:
            one = _set_of(view, some, capacity, single)
            if not has_room:  # the others find no room either, and no limit is to be counted
                return [*found, *[one] * (number - len(found))]
        slots.subtract(one.pool.name for one in has_room[:1])
        taken.room.update(one.pool.name for one in has_room[:1])
        taken.add(best.pool.name, one.zone or _only_zone(best.pool))
        found.append(one)
    return found


def room_left(view: View, taken: Shares) -> Counter[str]:
    """Return the room on nodes by pool, without room that was just promised to other workers."""
    slots = Counter(believed_room(view))
    slots.subtract(taken.room)
    return slots


def _open(ranked: Sequence[Ranked], slots: Counter[str]) -> Sequence[Ranked]:
    """Return the pools that a set may name, without those whose room others were just promised.

    A worker that prefers such a pool may be scheduled first and take the room that they wait for.
    """
    free = [one for one in ranked if not _had_room(one.pool) or slots[one.pool.name] > 0]
    has_room = any(slots[one.pool.name] > 0 for one in free)
    return free if has_room else ranked


def _had_room(pool: PoolFacts) -> bool:
    return pool.is_promised or pool.free_slots > 0


def _not_resting(view: View, ranked: list[Ranked]) -> list[Ranked]:
    """Leave out resting pools; where only they have room on their nodes, those with room stay.

    They may lose that node too, but the others must first get one. Without an autoscaler they get
    none. So a job that has found no node for a minute is let into all pools: how many workers that
    request nothing a node has room for is not known.
    """
    if seconds_until_none_rests(view) <= 0:
        return ranked
    room = untried_room(view)
    rested = [one for one in ranked if not is_resting(view, one.pool)]
    if any(room[one.pool.name] > 0 for one in rested):
        return rested
    return [one for one in ranked if one in rested or room[one.pool.name] > 0]


def _one_model(view: View, ranked: list[Ranked]) -> list[Ranked]:
    """Keep one GPU model per world: the slowest worker sets the pace of a step."""
    if view.job.spec.placement.homogeneous is not Homogeneous.ACCELERATOR or not ranked:
        return ranked
    there = view.once_unlimited("models", (), lambda: _models(view)).most_common(1)
    model = there[0][0] if there else ranked[0].pool.accelerator
    return [one for one in ranked if one.pool.accelerator == model]


def _models(view: View) -> Counter[str]:
    """Count the workers that stay by the GPU model of their nodes."""
    pools = (view.job.market.pool(w.node.pool) for w in view.staying if w.node is not None)
    return Counter(pool.accelerator for pool in pools if pool is not None)


def _zones(view: View, ranked: list[Ranked]) -> list[Ranked]:
    """Keep one zone with Single; with Auto, leave out zones that cost more than on-demand at home.

    The cost of a zone includes its traffic.
    """
    zones = view.job.spec.placement.zones
    if zones is Zones.ANY or not ranked or view.limited_size == 1:
        return ranked
    home = main_zone(view, ranked)
    inside = [one for one in ranked if home in one.pool.zones]
    if zones is Zones.SINGLE:
        return inside
    known = [one.on_demand_usd_per_work for one in ranked]
    ceiling = min((usd for usd in known if usd is not None), default=float("inf"))
    return [one for one in ranked if one in inside or one.usd_per_work < ceiling]


_RULES: tuple[Callable[[View, list[Ranked]], list[Ranked]], ...] = (
    _not_resting,  # leaves out pools that were dry or have just taken nodes away
    _one_model,  # leaves out other GPU models than the one that trains
    _zones,  # leaves out zones whose traffic costs more than they save
)


def _is_full(pool: PoolFacts) -> bool:
    return pool.max_workers is not None and pool.workers >= pool.max_workers


def _is_above(one: Ranked, ceiling: float | None) -> bool:
    limit = one.on_demand_usd_per_work if ceiling is None else ceiling
    return limit is not None and one.score.is_price_known and one.usd_per_work >= limit


def _within_limits(
    ranked: list[Ranked], taken: Shares, slots: Mapping[str, int]
) -> list[tuple[Ranked, str]]:
    """Return the pools and zones that may take one more worker; room comes first, then the price.

    No limit keeps a job below its smallest size: up to that size, all are returned, and those come
    first whose limits are exceeded least.
    """
    if not taken.are_limited:
        return [(one, "") for one in ranked]
    pairs = [(one, zone) for one in ranked for zone in (one.pool.zones or ("",))]
    by_excess = sorted(
        pairs,
        key=lambda pair: (
            taken.excess(pair[0].pool.name, pair[1]),
            slots.get(pair[0].pool.name, 0) <= 0,
        ),
    )
    if taken.total < taken.least:
        return by_excess
    return [pair for pair in by_excess if not taken.excess(pair[0].pool.name, pair[1])]


def _set_of(view: View, ranked: Sequence[Ranked], capacity: Capacity, zone: str) -> Placed:
    best, zones = ranked[0].usd_per_work, home_zones(view, ranked)
    is_measured = view.job.sync_bytes_per_step is not None or view.limited_size == 1
    weights = tuple((one.pool.name, _weight(best, one, zones, is_measured)) for one in ranked)
    return Placed(tuple(name for name, _ in weights), weights, capacity=capacity, zone=zone)


def _weight(best: float, one: Ranked, zones: frozenset[str], is_measured: bool) -> int:
    weight = _WEIGHT * best / one.usd_per_work if one.usd_per_work > 0 else _WEIGHT
    if not is_measured and zones.isdisjoint(one.pool.zones):
        weight *= _OTHER_ZONE
    return max(round(weight), 1)


def _only_zone(pool: PoolFacts) -> str:
    return pool.zones[0] if len(pool.zones) == 1 else ""
