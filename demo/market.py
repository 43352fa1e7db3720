"""The nodes of the demo: their zones, capacity types and made-up prices. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from devcluster.platforms import Capacity, Platform, pool_labels

PLATFORM = Platform.KARPENTER
INSTANCE_TYPE = "g5.xlarge"
USD_PER_HOUR = "spotrun.dev/usd-per-hour"
"""The annotation with which an admin sets a node's price."""


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind in one zone."""

    name: str
    zone: str
    capacity: Capacity
    usd_per_hour: str  # made up: not from any price list


POOLS = (
    Pool("spot-a", "us-east-1a", "spot", "0.31"),
    Pool("spot-b", "us-east-1b", "spot", "0.29"),
    Pool("steady", "us-east-1a", "on-demand", "1.01"),
)


@dataclass(frozen=True)
class NewNode:
    """A node to add."""

    name: str
    pool: Pool

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that the platform puts on the node."""
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
        """The annotation with the node's price."""
        return {USD_PER_HOUR: self.pool.usd_per_hour}


def first_nodes() -> tuple[NewNode, ...]:
    """One node of each pool."""
    return tuple(NewNode(f"{pool.name}-1", pool) for pool in POOLS)


@dataclass(frozen=True)
class NodeRequirement:
    """A requirement of a pod for its node: one line of its affinity."""

    label: str
    operator: str  # In or NotIn; any other is taken to hold
    values: tuple[str, ...]


Terms = Sequence[Sequence[NodeRequirement]]
"""Alternatives; all requirements of one must hold. Without any, every node is suitable."""


def replacement(lost: str, used: Collection[str], terms: Terms = ()) -> NewNode:
    """Return a node that suits a pod, as an autoscaler would add it, with an unused name.

    If possible, it is a spot node, and from another pool than the lost one.
    """
    nodes = [NewNode(_unused(pool, used), pool) for pool in POOLS]
    return min(
        nodes,
        key=lambda node: (
            not suits(node, terms),
            node.pool.capacity != "spot",
            lost.startswith(node.pool.name),
        ),
    )


def suits(node: NewNode, terms: Terms) -> bool:
    """Whether a pod with these requirements can run on the node."""
    labels = node.labels
    return not terms or any(
        all((labels.get(one.label) in one.values) == (one.operator == "In") for one in term)
        for term in terms
    )


def _unused(pool: Pool, used: Collection[str]) -> str:
    number = 1
    while f"{pool.name}-{number}" in used:
        number += 1
    return f"{pool.name}-{number}"
