"""The rate at which a pool takes nodes away: an estimate that starts from similar pools.

Lifetimes in recorded markets have heavy tails, so an average over a pool's past says little about
one node. But it is enough to choose between pools that lose few nodes and pools that lose many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.market import PoolFacts
from spotrun.state.stored.pools.pool_state import PoolState

PRIOR_PER_HOUR = 0.3
"""Interruptions per hour of a spot node of which nothing is known: the mean lifetime in nine
recorded zones was 3.2 h."""
PRIOR_HOURS = 6.0
"""This many observed hours have as much weight as the assumed rate."""


def interruptions_per_hour(pool: PoolFacts, market: Sequence[PoolFacts]) -> float:
    """Return how often a node of the pool is expected to be taken away, a bulk loss counted once.

    The pool's own history counts by how long it was watched; it is completed by the history of
    pools of the same region, and that by the usual rate.
    """
    if pool.capacity is not Capacity.SPOT:
        return 0.0
    similar = [
        other
        for other in market
        if other.capacity is Capacity.SPOT
        and other.region == pool.region
        and other.name != pool.name
    ]
    shared = _update(PRIOR_PER_HOUR, similar)
    return _update(shared, [pool])


def learn_rate(pool: PoolSnapshot, status: PoolState, _now: datetime) -> PoolState:
    """Store the rate in two digits, once it differs by a quarter: nodes that stay lower it slowly.

    It is stored for others than this operator: for programs that create nodes, and for people.
    """
    rate, written = pool.interruptions_per_hour, status.interruptions_per_hour
    if rate is None or (written is not None and abs(rate - float(written)) <= float(written) / 4):
        return status
    return replace(status, interruptions_per_hour=Decimal(f"{Decimal(f'{rate:.2g}'):f}"))


def _update(prior_per_hour: float, pools: Iterable[PoolFacts]) -> float:
    """Return the mean of a Gamma prior updated with the observations."""
    seen, hours = prior_per_hour * PRIOR_HOURS, PRIOR_HOURS
    for pool in pools:
        seen += pool.interruptions_24h
        hours += pool.node_hours_24h
    return seen / hours
