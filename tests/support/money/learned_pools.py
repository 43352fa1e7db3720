"""Pools as the operator has seen them, from which their next state is concluded."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from spotrun.api.capacitypool import Capacity, CapacityPoolSpec
from spotrun.money.price_history import Quote
from spotrun.money.units import UsdPerHour
from spotrun.policies.pool.policy import next_pool
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_state import PoolNode, PoolState
from tests.support.jobs.builders import ago

SPEC = CapacityPoolSpec(
    instance_types=("g5.xlarge",), zones=("us-east-1b",), capacity=Capacity.SPOT
)
NODE = PoolNode(Decimal(4), Decimal(16_000_000_000), gpus=1, accelerator="a10g")
HOUR = 3600.0


def a_pool(**facts: Any) -> PoolSnapshot:
    """A pool of a spot instance type that was looked at a minute ago."""
    status = facts.pop("status", PoolState(as_of=ago(60)))
    known = {"name": "p", "uid": "u", "version": "7", "spec": SPEC, "is_ours": True, "node": NODE}
    return PoolSnapshot(status=status, **{**known, **facts})


def a_quote(usd_per_hour: str, as_of: datetime | None = None) -> Quote:
    """Return the quote of a price table."""
    return Quote(usd(usd_per_hour), "a price table", as_of)


def usd(usd_per_hour: str) -> UsdPerHour:
    """A price."""
    return UsdPerHour(Decimal(usd_per_hour))


def after(pool: PoolSnapshot, seconds: float = 60, **facts: Any) -> PoolSnapshot:
    """The same pool a while later, with the status that followed; NOW is that later moment."""
    earlier = next_pool(pool, ago(seconds))
    return a_pool(status=earlier, **facts)
