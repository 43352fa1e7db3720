"""The cost of a job by the CapacityPools of its nodes; status has room for a few pools.

A charge keeps the name under which it was first stored, so no pool's sum falls when others come.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from spotrun.api.cost import MOST_POOLS, OTHER_POOLS
from spotrun.money.charges import Book
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Accumulators


@dataclass(frozen=True)
class Names:
    """The names under which the cost of pools is shown."""

    sums: Accumulators
    book: Book
    workers: Iterable[Worker]

    def of(self, pool: str) -> str:
        """Return the name of a pool."""
        return pool if not pool or pool in self._own else OTHER_POOLS

    @cached_property
    def _own(self) -> frozenset[str]:
        """Return the pools shown by name: those that already are, then others by alphabet."""
        charged = {charge.pool for charges in self.book.values() for charge in charges}
        known = (charged | self.sums.by_pool.keys()) - {"", OTHER_POOLS}
        here = {worker.node.pool for worker in self.workers if worker.node is not None} - {""}
        return frozenset([*known, *sorted(here - known)][:MOST_POOLS])
