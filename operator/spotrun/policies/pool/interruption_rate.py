"""The rate at which a pool takes nodes away: an estimate that starts from similar pools.

Lifetimes in recorded markets have heavy tails, so an average over a pool's past says little about
one node. It is enough to tell a calm pool from a stormy one, which is all that a choice needs.
"""

from collections.abc import Iterable, Sequence

from spotrun.api.capacitypool import Capacity
from spotrun.state.market import PoolFacts

PRIOR_PER_HOUR = 0.3
"""Interruptions per hour of a spot node that nothing is known of: the mean life in nine recorded
zones was 3.2 h."""
PRIOR_HOURS = 6.0
"""This many hours of watching weigh as much as the assumption before them."""


def interruptions_per_hour(pool: PoolFacts, market: Sequence[PoolFacts]) -> float:
    """Return how often a node of the pool is expected to be taken away, a bulk loss counted once.

    What the pool itself has shown counts as far as it was watched; beyond that, what pools of the
    same region have shown; beyond that, what is usual.
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


def _update(prior_per_hour: float, pools: Iterable[PoolFacts]) -> float:
    """The mean of a Gamma prior and what was seen."""
    seen, hours = prior_per_hour * PRIOR_HOURS, PRIOR_HOURS
    for pool in pools:
        seen += pool.interruptions_24h
        hours += pool.node_hours_24h
    return seen / hours
