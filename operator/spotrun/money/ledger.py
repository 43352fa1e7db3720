"""The ledger: stretches of time in which a worker held a share of a node, and their cost.

A cost is a function of segments and a time, and of nothing else: a second computation, after a
crash or in a replay, comes to the same sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from spotrun.money.price_history import Priced, PriceHistory
from spotrun.money.units import NO_USD, Usd


@dataclass(frozen=True)
class Segment:
    """A worker on a node: from when its pod was bound until its containers ended."""

    serial: int
    start: datetime
    end: datetime | None  # None: it goes on
    share: Decimal  # of the node, as `share_of` has it
    history: PriceHistory  # of the whole node's price

    def cost(self, until: datetime) -> Priced:
        """Return its cost by that time."""
        end = until if self.end is None else min(self.end, until)
        return self.history.cost(self.start, end, self.share)


def cost(segments: Iterable[Segment], until: datetime) -> Priced:
    """Return the cost of all segments together by a time."""
    return sum((segment.cost(until) for segment in segments), Priced())


def idle(node: Segment, workers: Iterable[Segment], until: datetime) -> Usd:
    """Return a node's cost beyond the shares of the workers on it; only they run there.

    `node` is the whole node from its creation to its removal.
    """
    paid = cost((_within(node, worker) for worker in workers), until)
    return max(node.cost(until).usd - paid.usd, NO_USD)


def _within(node: Segment, worker: Segment) -> Segment:
    """Return the worker's time in which its node existed: outside of it the node cost nothing.

    The two are dated by different clocks.
    """
    ends = [end for end in (worker.end, node.end) if end is not None]
    return replace(worker, start=max(worker.start, node.start), end=min(ends, default=None))
