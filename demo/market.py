"""The nodes of the demo: where they are, what kind of capacity, at what made-up price. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from devcluster.platforms import Capacity, Platform, pool_labels

PLATFORM = Platform.KARPENTER
INSTANCE_TYPE = "g5.xlarge"
USD_PER_HOUR = "spotrun.dev/usd-per-hour"
"""The annotation by which an admin tells spotrun a node's price."""


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind in one zone."""

    name: str
    zone: str
    capacity: Capacity
    usd_per_hour: str  # made up: nobody is asked, and nobody charges it


POOLS = (
    Pool("spot-a", "us-east-1a", "spot", "0.31"),
    Pool("spot-b", "us-east-1b", "spot", "0.29"),
    Pool("steady", "us-east-1a", "on-demand", "1.01"),
)


@dataclass(frozen=True)
class NewNode:
    """A node to be added."""

    name: str
    pool: Pool

    @property
    def labels(self) -> Mapping[str, str]:
        """What the platform marks it with."""
        pool = self.pool
        return pool_labels(
            PLATFORM,
            capacity=pool.capacity,
            zone=pool.zone,
            instance_type=INSTANCE_TYPE,
            pool=pool.name,
        ).labels

    @property
    def annotations(self) -> dict[str, Any]:
        """Its price."""
        return {USD_PER_HOUR: self.pool.usd_per_hour}


def first_nodes() -> tuple[NewNode, ...]:
    """One node of each pool."""
    return tuple(NewNode(f"{pool.name}-1", pool) for pool in POOLS)


def replacement(lost: str, used: Collection[str]) -> NewNode:
    """A spot node of another pool than the lost one's, under a name that was not used before."""
    pool = next(p for p in POOLS if p.capacity == "spot" and not lost.startswith(p.name))
    number = 1
    while f"{pool.name}-{number}" in used:
        number += 1
    return NewNode(f"{pool.name}-{number}", pool)
