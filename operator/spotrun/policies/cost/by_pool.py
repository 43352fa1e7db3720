"""What a job costs by the CapacityPools of its nodes, of which status has room for a few.

A charge is noted under the name by which it is told for ever, so no sum falls when others come.
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
        known = (charged | self.sums.by_pool.keys()) - {"", OTHER_POOLS}
        here = {worker.node.pool for worker in self.workers if worker.node is not None} - {""}
        return frozenset([*known, *sorted(here - known)][:MOST_POOLS])
