"""What a job costs by the CapacityPools of its nodes, of which status has room for a few.

A charge is noted under the name by which it is told for ever, so no sum falls when others come.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from spotrun.api.cost import MOST_POOLS, OTHER_POOLS, Accumulators, PoolCost, PoolCosts
from spotrun.money.charges import Book
from spotrun.money.ledger import ByPool
from spotrun.money.units import Usd
from spotrun.state.snapshot import Worker


@dataclass(frozen=True)
class Names:
    """By which names pools are told."""

    sums: Accumulators
    book: Book
    workers: Iterable[Worker]

    def of(self, pool: str) -> str:
        """That of a pool."""
        return pool if not pool or pool in self._own else OTHER_POOLS

    @cached_property
    def _own(self) -> frozenset[str]:
        """Who has one keeps it; the others follow in alphabetical order, while there is room."""
        charged = {charge.pool for charges in self.book.values() for charge in charges}
        known = (charged | set(read_pools(self.sums.by_pool))) - {"", OTHER_POOLS}
        here = {worker.node.pool for worker in self.workers if worker.node is not None} - {""}
        return frozenset([*known, *sorted(here - known)][:MOST_POOLS])


def read_pools(costs: PoolCosts | None) -> dict[str, Usd]:
    """The sums as status holds them."""
    return {cost.pool: Usd.of(cost.usd) for cost in costs or ()}


def write_pools(by_pool: ByPool) -> PoolCosts | None:
    """The same as status holds it; None where there is nothing to say."""
    return tuple(PoolCost(pool=name, usd=by_pool[name].amount) for name in sorted(by_pool)) or None
