"""Pools and workers in them, made by hand: `a_spot_pool("a", usd=0.4)`."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from spotrun.api.capacitypool import Capacity
from spotrun.money.shares import Resources
from spotrun.state.market import Market, PoolFacts
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import NOW, JobBuilder

ON_DEMAND_USD = 1.0


def a_pool(name: str, capacity: Capacity, usd: float | None, **facts: Any) -> PoolFacts:
    """A pool of one type in one zone; its price and the one on demand are those of a node."""
    zone = facts.pop("zone", f"zone-{name}")
    known: dict[str, Any] = {
        "zones": (zone,),
        "region": "region",
        "instance_types": ("g5.xlarge",),
        "accelerator": "a10g",
        "gpus": 1,
        "usd_per_hour": None if usd is None else Decimal(str(usd)),
        "on_demand_usd_per_hour": Decimal(str(ON_DEMAND_USD)),
        "match_labels": {"pool": (name,)},
        **facts,
    }
    return PoolFacts(name=name, capacity=capacity, **known)


def a_spot_pool(name: str = "spot", usd: float | None = 0.4, **facts: Any) -> PoolFacts:
    """Spot capacity, at two fifths of the on-demand price."""
    return a_pool(name, Capacity.SPOT, usd, **facts)


def an_on_demand_pool(
    name: str = "od", usd: float | None = ON_DEMAND_USD, **facts: Any
) -> PoolFacts:
    """On-demand capacity."""
    return a_pool(name, Capacity.ON_DEMAND, usd, **facts)


def a_node_of(pool: PoolFacts, worker_id: int, created_at: datetime = NOW, **facts: Any) -> Node:
    """A node of a pool, for one worker."""
    return Node(
        f"node-{worker_id}",
        capacity=pool.capacity,
        zone=pool.zones[0] if pool.zones else "",
        pool=pool.name,
        region=pool.region,
        created_at=created_at,
        **facts,
    )


def on_market(job: JobBuilder, *pools: PoolFacts, **facts: Any) -> JobBuilder:
    """The job in a cluster that knows these pools."""
    return job.with_facts(market=Market(pools), requests=Resources(gpus=1), **facts)
