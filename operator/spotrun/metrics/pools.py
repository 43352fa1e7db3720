"""Metrics of CapacityPools, read from their status at each scrape.

A node autoscaler can use them to avoid pools that lose nodes: see docs/karpenter.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric
from typing_extensions import override

from spotrun.api.capacitypool import Capacity
from spotrun.metrics.of_the_leader import OfTheLeader
from spotrun.metrics.per_job_numbers import Figure, families
from spotrun.state.stored.pools.pool_state import PoolState

_PREFIX = "spotrun_capacitypool"
_LABELS = ("pool", "capacity")


@dataclass(frozen=True)
class KnownPool:
    """A pool, and what was learned about it."""

    name: str
    capacity: Capacity
    status: PoolState


class Pools(OfTheLeader[KnownPool]):
    """Metrics of pools."""

    @override
    def metrics_of(self, known: list[KnownPool]) -> Iterator[Metric]:
        shown = self.first(sorted(known, key=lambda pool: pool.name))
        statuses = [((pool.name, pool.capacity.value), pool.status) for pool in shown]
        yield from families(_OF_POOLS, _LABELS, statuses, prefix=_PREFIX)


def _node_usd_per_hour(status: PoolState) -> float | None:
    price = status.price.usd_per_hour if status.price is not None else None
    return None if price is None else float(price.decimal)


_OF_POOLS: tuple[Figure[PoolState], ...] = (
    Figure("nodes", "Nodes that are there.", False, lambda one: float(one.nodes)),
    Figure("node_usd_per_hour", "Price of one node now.", False, _node_usd_per_hour),
    Figure(
        "interruptions_per_hour",
        "Rate at which a spot node is expected to be taken away.",
        False,
        lambda one: one.interruptions_per_hour,
    ),
)
