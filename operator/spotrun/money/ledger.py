"""The ledger: the time for which each price was paid, added up exactly before it is rounded.

It bills the workers of a cluster by the charges that are stored for them, and the leases and unused
nodes of a replay by shares of a node's price. A cost depends only on these and on times: a second
computation, after a crash or in a replay, gives the same sum.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from spotrun.money.charges import NO_CHARGES, Charge, Charges
from spotrun.money.price_history import PriceHistory
from spotrun.money.units import NO_USD, Usd, UsdPerHour, total_over

_NO_TIME = timedelta(0)

ByPool = Mapping[str, Usd]
"""Sums by the name of a pool; "" stands for nodes that are in no pool."""


@dataclass(frozen=True)
class Spent:
    """A cost, its parts, and the time of unknown price, which is not in the cost."""

    usd: Usd = NO_USD
    spot_usd: Usd = NO_USD  # included in `usd`
    by_pool: ByPool = field(default_factory=dict)  # the same as `usd`
    unpriced_seconds: Decimal = Decimal(0)

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.usd + other.usd,
            self.spot_usd + other.spot_usd,
            added(self.by_pool, other.by_pool),
            self.unpriced_seconds + other.unpriced_seconds,
        )

    def __sub__(self, part: "Spent") -> "Spent":
        return Spent(
            self.usd - part.usd,
            self.spot_usd - part.spot_usd,
            {
                pool: usd - part.by_pool.get(pool, NO_USD)
                for pool, usd in self.by_pool.items()
                if usd != part.by_pool.get(pool)
            },
            self.unpriced_seconds - part.unpriced_seconds,
        )


def added(one: ByPool, other: ByPool) -> dict[str, Usd]:
    """Return the sums of both, pool by pool."""
    return {pool: one.get(pool, NO_USD) + other.get(pool, NO_USD) for pool in (*one, *other)}


class Ledger:
    """Adds up the time at each price, then multiplies: many workers have the same price."""

    def __init__(self) -> None:
        self._lives: dict[Charges, list[tuple[datetime, datetime]]] = {}

    def add(self, charges: Charges, start: datetime, end: datetime) -> None:
        """Charge the time from start to end; without charges, the price of that time is unknown."""
        if start < end:
            self._lives.setdefault(charges, []).append((start, end))

    def add_share(
        self, history: PriceHistory, share: Decimal, start: datetime, end: datetime
    ) -> None:
        """Charge a share of a node's price; the price may be unknown for a part of that time."""
        for charges, since, until in _known_and_unknown(history, share, start, end):
            self.add(charges, since, until)

    def total(self) -> Spent:
        """Return the cost of everything that was added."""
        unknown, parts = _NO_TIME, dict[tuple[str, bool], list[tuple[UsdPerHour, timedelta]]]()
        for charges, lives in self._lives.items():
            if not charges:
                unknown += sum((end - start for start, end in lives), _NO_TIME)
                continue
            for charge, time in zip(charges, _times(charges, lives), strict=True):
                if time:
                    same = parts.setdefault((charge.pool, charge.is_spot), [])
                    same.append((charge.usd_per_hour, time))
        usd, spot_usd, by_pool = NO_USD, NO_USD, dict[str, Usd]()
        for (pool, is_spot), same in parts.items():
            part = total_over(same)
            usd, spot_usd = usd + part, spot_usd + part if is_spot else spot_usd
            by_pool[pool] = by_pool.get(pool, NO_USD) + part
        return Spent(usd, spot_usd, by_pool, _seconds(unknown))


@dataclass(frozen=True)
class Priced:
    """A cost, and the time without a known price, which is not in the cost."""

    usd: Usd = NO_USD
    unpriced_seconds: Decimal = Decimal(0)

    @property
    def is_complete(self) -> bool:
        """Whether the cost includes all of the time."""
        return not self.unpriced_seconds

    def __add__(self, other: "Priced") -> "Priced":
        return Priced(self.usd + other.usd, self.unpriced_seconds + other.unpriced_seconds)


@dataclass(frozen=True)
class Segment:
    """A worker on a node: from when its pod was bound until its containers ended."""

    worker_id: int
    start: datetime
    end: datetime | None  # None: it still runs
    share: Decimal  # of the node, as `share_of` computes it
    history: PriceHistory  # of the whole node's price


def cost(segments: Iterable[Segment], until: datetime) -> Priced:
    """Return the total cost of all segments up to a time."""
    ledger = Ledger()
    for one in segments:
        end = until if one.end is None else min(one.end, until)
        ledger.add_share(one.history, one.share, one.start, end)
    spent = ledger.total()
    return Priced(spent.usd, spent.unpriced_seconds)


def idle(node: Segment, workers: Iterable[Segment], until: datetime) -> Usd:
    """Return the cost of a node minus the shares of its workers; nothing else runs on it.

    `node` is the whole node from its creation to its removal.
    """
    paid = cost((_within(node, worker) for worker in workers), until)
    return max(cost([node], until).usd - paid.usd, NO_USD)


def _within(node: Segment, worker: Segment) -> Segment:
    """Return the part of a worker's time in which its node existed: the rest cost nothing.

    The two have times from different clocks.
    """
    ends = [end for end in (worker.end, node.end) if end is not None]
    return replace(worker, start=max(worker.start, node.start), end=min(ends, default=None))


def _known_and_unknown(
    history: PriceHistory, share: Decimal, start: datetime, end: datetime
) -> Iterator[tuple[Charges, datetime, datetime]]:
    """Yield the time from start to end, cut where the price becomes known or unknown."""
    known: list[Charge] = []
    begin = start
    for since, until, price in history.pieces(start, end):
        if price is not None:
            known.append(Charge(since, price * share))
            continue
        if known:
            yield Charges(known), begin, since
            known = []
        yield NO_CHARGES, since, until
        begin = until
    if known:
        yield Charges(known), begin, end


def _times(charges: Charges, lives: Iterable[tuple[datetime, datetime]]) -> list[timedelta]:
    """Return for how long each charge is paid, added up over all lives.

    Only the first and the last charge of a life are computed; the whole ones between are counted.
    """
    since = [charge.since for charge in charges]
    times, whole = [_NO_TIME] * len(charges), [0] * (len(charges) + 1)
    for start, end in lives:
        if end <= since[0]:
            continue
        begin = max(start, since[0])
        first, last = bisect_right(since, begin) - 1, bisect_left(since, end) - 1
        if first == last:
            times[first] += end - begin
            continue
        times[first] += since[first + 1] - begin
        times[last] += end - since[last]
        whole[first + 1] += 1
        whole[last] -= 1
    for index, number in enumerate(accumulate(whole[: len(charges)])):
        if number:
            times[index] += number * (since[index + 1] - since[index])
    return times


def _seconds(time: timedelta) -> Decimal:
    return Decimal(time // timedelta(microseconds=1)) / 1_000_000
