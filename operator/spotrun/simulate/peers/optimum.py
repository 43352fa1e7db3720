"""The optimum: the cheapest way to meet the deadline if the whole market is known beforehand.

An exact dynamic program over ticks and work left, for one gang in one pool at a time. It is not a
policy but the bound that policies are measured against: it never asks a pool without success, and
it saves everything just before it would be lost. A launch is one move of as many ticks as a
changeover takes, because leaving before its end never pays off. So the state need not contain how
much of the changeover is left.
"""

from collections import deque
from dataclasses import dataclass
from math import ceil, floor, gcd, inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spotrun.api.capacitypool import Capacity
from spotrun.simulate.market.virtual_market import Pool, VirtualMarket
from spotrun.simulate.outcome import Course, Lease
from spotrun.simulate.scenario import Job, Rules

_Usd: TypeAlias = NDArray[np.float64]  # indexed by units of work left
_Bits: TypeAlias = NDArray[np.unsignedinteger[Any]]
_Which: TypeAlias = NDArray[np.uint8]
_HAIR = 1e-9
_WAIT = 0
MOST_POOLS = 63
"""A set of this many pools fits into a machine word."""


def play(job: Job, market: VirtualMarket, rules: Rules) -> Course | None:
    """Return the cheapest course; None if no course meets the deadline."""
    grid = _Grid.of(job, market, rules)
    plan = _plan(grid)
    return _follow(grid, plan) if plan is not None else None


@dataclass(frozen=True)
class _Grid:
    """The market in ticks, and work in a unit of which ticks and changeovers are multiples."""

    gap_seconds: float
    ticks: int
    pools: tuple[Pool, ...]
    usd: _Usd  # [pool, tick] cost of the gang; infinite if the pool does not keep it
    is_open: NDArray[np.bool_]  # [pool, tick] whether the gang can be launched there
    work: int
    tick_work: int
    launch_ticks: int
    launch_work: int  # work done during the launch, in its last tick
    workers: int

    @classmethod
    def of(cls, job: Job, market: VirtualMarket, rules: Rules) -> "_Grid":
        gap, pools = market.tick_seconds, _worth_considering(market, rules)
        unit = _common(gap, rules.changeover_seconds)
        ticks = floor(job.deadline_seconds / gap + _HAIR)
        launch_ticks = max(ceil(rules.changeover_seconds / gap - _HAIR), 1)
        tick_work, overhead = round(gap / unit), round(rules.changeover_seconds / unit)
        return cls(
            gap_seconds=gap,
            ticks=ticks,
            pools=pools,
            usd=np.array([_costs(pool, ticks, gap, job.workers) for pool in pools]),
            is_open=np.array([_openings(pool, ticks, gap, job.workers) for pool in pools]),
            work=ceil(job.work_seconds / unit - _HAIR),
            tick_work=tick_work,
            launch_ticks=launch_ticks,
            launch_work=launch_ticks * tick_work - overhead,
            workers=job.workers,
        )

    def reach(self, tick: int) -> slice:
        """Return the possible amounts of work left at a tick that can be finished in time."""
        least = max(self.work - tick * self.tick_work, 0)
        most = min((self.ticks - tick) * self.tick_work, self.work)
        return slice(least, max(most, least - 1) + 1)


@dataclass(frozen=True)
class _Plan:
    """The best moves of each tick, by the amount of work left."""

    starts: list[_Which]  # the move without a node: 0 to wait, else launch in pool - 1
    stays: list[_Bits]  # the pools in which staying is best


def _plan(grid: _Grid) -> _Plan | None:
    """Compute the best moves backwards from the deadline; None if the work cannot be done."""
    size, count = grid.work + 1, len(grid.pools)
    done = np.full(size, inf)
    done[0] = 0.0
    idle, held = done, [done] * count  # the cost of the rest from the next tick on
    later = deque([held] * grid.launch_ticks, maxlen=grid.launch_ticks)
    starts: list[_Which] = []
    stays: list[_Bits] = []
    for tick in range(grid.ticks - 1, -1, -1):
        reach = grid.reach(tick)
        idle, start = _without(grid, tick, reach, idle, later[-1])
        held, stay = _within(grid, tick, reach, idle, later[0])
        later.appendleft(held)
        starts.append(start)
        stays.append(stay)
    starts.reverse()
    stays.reverse()
    return _Plan(starts, stays) if idle[grid.work] < inf else None


def _without(
    grid: _Grid, tick: int, reach: slice, idle: _Usd, after_launch: list[_Usd]
) -> tuple[_Usd, _Which]:
    """Compute the cost at a tick without a node: wait for the next tick, or launch in a pool."""
    best = _fresh(grid)
    best[reach] = idle[reach]
    start = np.full(reach.stop - reach.start, _WAIT, dtype=np.uint8)
    if tick + grid.launch_ticks <= grid.ticks:
        for number in range(len(grid.pools)):
            usd = grid.usd[number, tick : tick + grid.launch_ticks].sum()
            if usd == inf or not grid.is_open[number, tick]:
                continue
            cost = usd + _shifted(after_launch[number], reach, grid.launch_work)
            is_better = cost < best[reach]
            best[reach] = np.where(is_better, cost, best[reach])
            start[is_better] = number + 1
    best[0] = 0.0
    return best, start


def _within(
    grid: _Grid, tick: int, reach: slice, idle: _Usd, following: list[_Usd]
) -> tuple[list[_Usd], _Bits]:
    """Compute the cost at a tick with a node: stay another tick, or leave it."""
    held: list[_Usd] = []
    bits = np.min_scalar_type(1 << len(grid.pools))
    stays: _Bits = np.zeros(reach.stop - reach.start, dtype=bits)
    for number in range(len(grid.pools)):
        usd = grid.usd[number, tick]
        if usd == inf:
            held.append(idle)
            continue
        cost = usd + _shifted(following[number], reach, grid.tick_work)
        is_better = cost <= idle[reach]
        best = _fresh(grid)
        best[reach] = np.where(is_better, cost, idle[reach])
        best[0] = 0.0
        stays |= is_better.astype(bits) << bits.type(number)
        held.append(best)
    return held, stays


def _fresh(grid: _Grid) -> _Usd:
    return np.full(grid.work + 1, inf)


def _shifted(values: _Usd, reach: slice, work: int) -> _Usd:
    """Return the values for work left minus this amount, at least zero."""
    missing = min(max(work - reach.start, 0), reach.stop - reach.start)
    rest = values[reach.start + missing - work : reach.stop - work]
    return np.concatenate((np.full(missing, values[0]), rest)) if missing else rest


def _follow(grid: _Grid, plan: _Plan) -> Course:
    """Return the leases of the cheapest course, forwards."""
    tick, left, number, since = 0, grid.work, None, 0
    leases: list[Lease] = []
    while left > 0:
        place = left - grid.reach(tick).start
        if number is not None and int(plan.stays[tick][place]) >> number & 1:
            tick, left = tick + 1, left - grid.tick_work
            continue
        if number is not None:
            leases.append(_lease(grid, number, since, tick))
            number = None
        start = int(plan.starts[tick][place])
        if start == _WAIT:
            tick += 1
            continue
        number, since = start - 1, tick
        tick, left = tick + grid.launch_ticks, left - grid.launch_work
    if number is not None:
        leases.append(_lease(grid, number, since, tick, is_last=True))
    return Course(leases, tick * grid.gap_seconds)


def _lease(grid: _Grid, number: int, since: int, until: int, *, is_last: bool = False) -> Lease:
    pool, gap = grid.pools[number], grid.gap_seconds
    is_spot = pool.capacity is Capacity.SPOT
    was_taken = is_spot and not is_last and pool.offer(until * gap).nodes < grid.workers
    return Lease(pool, since * gap, until * gap, grid.workers, was_taken)


def _worth_considering(market: VirtualMarket, rules: Rules) -> tuple[Pool, ...]:
    """Return the pools to consider; of on-demand pools that are never dry, only the cheapest."""
    on_demand = sorted(market.on_demand, key=lambda pool: pool.offer(0.0).usd_per_hour)
    pools = (*market.spot, *(on_demand if rules.on_demand_dry_rate else on_demand[:1]))
    if len(pools) > MOST_POOLS:
        raise ValueError(
            f"the optimum is computed over at most {MOST_POOLS} pools, not {len(pools)}: "
            "give fewer traces"
        )
    return pools


def _costs(pool: Pool, ticks: int, gap: float, workers: int) -> list[float]:
    offers = (pool.offer(tick * gap) for tick in range(ticks))
    stays = pool.capacity is not Capacity.SPOT
    hours = workers * gap / 3600
    return [
        float(one.usd_per_hour) * hours if stays or one.nodes >= workers else inf for one in offers
    ]


def _openings(pool: Pool, ticks: int, gap: float, workers: int) -> list[bool]:
    return [pool.offer(tick * gap).nodes >= workers for tick in range(ticks)]


def _common(gap: float, changeover: float) -> float:
    """Return the largest unit in whole milliseconds of which both are multiples."""
    return gcd(round(gap * 1000), round(changeover * 1000)) / 1000
