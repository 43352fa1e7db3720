"""The ledger: stretches of time in which a worker held a share of a node, and what they cost.

A cost is a function of segments and a moment, and of nothing else: whoever computes it again, after
a crash or in a replay, comes to the same sum.
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
        """What it has cost by that moment."""
        end = until if self.end is None else min(self.end, until)
        return self.history.cost(self.start, end, self.share)


def cost(segments: Iterable[Segment], until: datetime) -> Priced:
    """What the segments have cost by a moment, all together."""
    return sum((segment.cost(until) for segment in segments), Priced())


def idle(node: Segment, workers: Iterable[Segment], until: datetime) -> Usd:
    """What a node has cost beyond the shares of the workers on it; they alone run there.

    `node` is the whole node from its creation to its removal.
    """
    paid = cost((_within(node, worker) for worker in workers), until)
    return max(node.cost(until).usd - paid.usd, NO_USD)


def _within(node: Segment, worker: Segment) -> Segment:
    """The time of a worker in which its node was there: of the rest the node's cost knows nothing.

    The two are told by different clocks.
    """
    ends = [end for end in (worker.end, node.end) if end is not None]
    return replace(worker, start=max(worker.start, node.start), end=min(ends, default=None))
