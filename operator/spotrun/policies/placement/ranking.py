"""Pools in the order of the expected cost of useful work there, and that order in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from spotrun.api.capacitypool import Capacity
from spotrun.money.other_costs.transfer import Place, gb_per_link
from spotrun.policies.deadline.course import changeovers
from spotrun.policies.placement.score import (
    Score,
    link_usd_per_hour,
    node_usd_per_hour,
    share_in,
    speed_of,
)
from spotrun.policies.pool.interruption_rate import interruptions_per_hour
from spotrun.state.job_state import JobState
from spotrun.state.market import PoolFacts
from spotrun.state.sizes import smallest
from spotrun.state.stored.training import NO_PACE
from spotrun.state.view import View


@dataclass(frozen=True)
class Ranked:
    """A pool and its expected cost."""

    pool: PoolFacts
    score: Score
    on_demand_usd_per_work: float | None = None  # of the same nodes on demand

    @property
    def usd_per_work(self) -> float:
        """The cost by which pools are compared."""
        return self.score.usd_per_work


def rank(view: View, status: JobState, pools: Sequence[PoolFacts], new: int) -> list[Ranked]:
    """Return these pools with their expected cost for so many new workers, the best first."""
    market = view.job.market.pools
    bare = sorted((_rank(view, status, pool, market) for pool in pools), key=_order)
    if status.pace == NO_PACE or view.job.sync_bytes_per_step is None or not bare:
        return bare
    homes = _homes(view, bare)
    gb_per_hour = _crossing_gb_per_hour(view, status, len(homes)) / max(new, 1)
    return sorted((_with_traffic(one, homes, gb_per_hour) for one in bare), key=_order)


def home_zones(view: View, ranked: Sequence[Ranked]) -> frozenset[str]:
    """The zones in which workers are; without workers, the zone of the best pool."""
    return frozenset(home.zone for home in _homes(view, ranked))


def main_zone(view: View, ranked: Sequence[Ranked]) -> str:
    """The zone in which most workers are; without workers, the zone of the best pool."""
    zones = Counter[str]()
    for place, number in _there(view).items():
        zones[place.zone] += number
    if zones:
        return zones.most_common(1)[0][0]
    return next((zone for one in ranked for zone in one.pool.zones), "")


def describe(chosen: Iterable[Ranked], others: Iterable[Ranked]) -> str:
    """Return one line with the prices of the best chosen pool and of the best other pool."""
    best = (next(iter(chosen), None), next(iter(others), None))
    return "; ".join(_words(one) for one in best if one is not None)


def _order(one: Ranked) -> tuple[float, str]:
    return one.usd_per_work, one.pool.name


def _rank(view: View, status: JobState, pool: PoolFacts, market: Sequence[PoolFacts]) -> Ranked:
    share, speed = share_in(pool, view.job.requests), speed_of(pool.accelerator)
    price, is_known = node_usd_per_hour(pool, market)
    score = Score(
        usd_per_hour=price * share,
        is_price_known=is_known,
        interruptions_per_hour=interruptions_per_hour(pool, market),
        interruption_usd=_interruption_usd(view, status, price * share),
        speed=speed,
    )
    on_demand = pool.on_demand_usd_per_hour
    return Ranked(pool, score, float(on_demand) * share / speed if on_demand else None)


def _interruption_usd(view: View, status: JobState, usd_per_hour: float) -> float:
    """Return the cost of a replacement until it trains; if the rest cannot train on, of all."""
    size = view.limited_size
    waiting = size if size - 1 < smallest(view.job.effective_workers) else 1
    usual_seconds, _ = changeovers(status.pace)
    return usd_per_hour * waiting * usual_seconds / 3600


def _homes(view: View, ranked: Sequence[Ranked]) -> frozenset[Place]:
    there = _there(view)
    first = (Place(one.pool.region, zone) for one in ranked for zone in one.pool.zones)
    return frozenset(there or islice(first, 1))


def _there(view: View) -> Counter[Place]:
    """Count the workers that stay by the place of their nodes."""

    def look() -> Counter[Place]:
        nodes = (worker.node for worker in view.staying if worker.node is not None)
        return Counter(Place(node.region, node.zone) for node in nodes if node.zone)

    return view.once_unlimited("workers by place", (), look)


def _crossing_gb_per_hour(view: View, status: JobState, zones: int) -> float:
    """Return the traffic to and from one more zone, of all gradient rings."""
    pace, sent = status.pace, view.job.sync_bytes_per_step
    apart = view.job.spec.workers.per_replica
    ring = view.limited_size // apart
    seconds = float(pace.step_seconds or 0)
    if sent is None or not seconds or ring < 2:
        return 0.0
    links = 2 if zones < 2 else 1  # a ring over z zones crosses z times, within one zone never
    gb_per_step = float(gb_per_link(ring * view.job.processes, int(sent)))
    return apart * links * gb_per_step * 3600 / seconds


def _with_traffic(one: Ranked, homes: frozenset[Place], gb_per_hour: float) -> Ranked:
    if not one.pool.zones or any(home.zone in one.pool.zones for home in homes):
        return one
    prices = (
        link_usd_per_hour(home, Place(one.pool.region or home.region, zone), gb_per_hour)
        for home in homes
        for zone in one.pool.zones
    )
    return replace(one, score=replace(one.score, transfer_usd_per_hour=min(prices, default=0.0)))


def whereabouts(one: Ranked) -> str:
    """Name a pool for users: spot g5.xlarge us-east-1b."""
    pool = one.pool
    kind = {Capacity.SPOT: "spot", Capacity.ON_DEMAND: "on-demand"}.get(pool.capacity, "reserved")
    where = " ".join((*pool.instance_types[:1], *pool.zones[:1])) or pool.name
    return f"{kind} {where}"


def _words(one: Ranked) -> str:
    pool, score = one.pool, one.score
    if not score.is_price_known:
        return f"{whereabouts(one)} of unknown price"
    said = f"{whereabouts(one)} ${score.usd_per_hour:.2f}/h"
    if pool.capacity is Capacity.SPOT:
        said += f", expected ${score.expected_usd_per_hour:.2f} with interruptions"
        if score.transfer_usd_per_hour:
            said += f" and ${score.transfer_usd_per_hour:.2f} of traffic between zones"
    return said
