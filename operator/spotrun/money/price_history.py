"""The hourly price of a node: who quotes it, and how it changed over time."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from spotrun.money.units import UsdPerHour

EVER = datetime.min.replace(tzinfo=UTC)
"""The start of a price without a date: it has always been valid."""


@dataclass(frozen=True)
class Quote:
    """A price, and its source."""

    usd_per_hour: UsdPerHour
    source: str
    as_of: datetime | None = None  # when the source gave it; None: valid until it is changed
    good_for: timedelta | None = None  # how old it may become before it is called stale

    @property
    def stale_at(self) -> datetime | None:
        """The time by which the source should quote a newer price; None: it need not."""
        if self.as_of is None or self.good_for is None:
            return None
        return self.as_of + self.good_for

    def is_stale(self, now: datetime) -> bool:
        """Whether the source should have quoted a newer price by now."""
        return self.stale_at is not None and now > self.stale_at


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A price from a time on."""

    time: datetime
    usd_per_hour: UsdPerHour


@dataclass(frozen=True, slots=True)
class NodePrice:
    """The price of a node of a pool, as the pool's status stores it."""

    usd_per_hour: UsdPerHour | None = None  # now; None: unknown
    on_demand_usd_per_hour: UsdPerHour | None = None  # of the same node on demand
    source: str | None = None
    as_of: datetime | None = None
    is_stale: bool = False  # its source should have quoted a newer one by now
    recent: tuple[PriceChange, ...] = ()  # oldest first


@dataclass(frozen=True)
class PriceHistory:
    """The price of a node from each time on, ascending; None, and before the first: unknown."""

    changes: tuple[tuple[datetime, UsdPerHour | None], ...] = ()

    def __post_init__(self) -> None:
        moments = [moment for moment, _ in self.changes]
        assert moments == sorted(moments), f"price changes must ascend in time: {moments}"

    @classmethod
    def constant(cls, price: UsdPerHour | None) -> Self:
        """Return the history of a price that never changed."""
        return cls(((EVER, price),))

    def at(self, moment: datetime) -> UsdPerHour | None:
        """Return the price at a time."""
        index = self._index(moment)
        return self.changes[index][1] if index >= 0 else None

    def between(
        self, after: datetime, until: datetime
    ) -> tuple[tuple[datetime, UsdPerHour | None], ...]:
        """Return the changes after one time, up to another."""
        return self.changes[self._index(after) + 1 : self._index(until) + 1]

    def stretches(self, start: datetime, end: datetime) -> Iterator[tuple[UsdPerHour, timedelta]]:
        """Yield the known prices from start to end, and how long each held."""
        for since, until, price in self.pieces(start, end):
            if price is not None:
                yield price, until - since

    def pieces(
        self, start: datetime, end: datetime
    ) -> Iterator[tuple[datetime, datetime, UsdPerHour | None]]:
        """Yield the time from start to end, cut at each change of the price."""
        index = self._index(start)
        while start < end:
            following = self.changes[index + 1][0] if index + 1 < len(self.changes) else end
            until = min(following, end)
            yield start, until, self.changes[index][1] if index >= 0 else None
            start, index = until, index + 1

    def _index(self, moment: datetime) -> int:
        changes = self.changes
        if changes and changes[-1][0] <= moment:  # the usual case
            return len(changes) - 1
        return bisect_right(changes, moment, key=lambda change: change[0]) - 1


def remembered(price: NodePrice | None) -> Quote | None:
    """Return the price in a pool's status as it was quoted."""
    if price is None or price.usd_per_hour is None or price.source is None:
        return None
    return Quote(price.usd_per_hour, price.source, price.as_of)


def history_of(price: NodePrice | None, now: datetime) -> PriceHistory:
    """Return the history of a pool's price, from its status.

    The oldest known price counts for all time before it: a pool is often seen shortly after its
    first worker, and its first price was already valid when it was recorded. If the present price
    is not the last one in the list, it counts from the time at which its source gave it. A price
    that is no longer known is unknown from then on.
    """
    if price is None:
        return PriceHistory()
    recent = sorted(price.recent, key=lambda change: change.time)
    changes: list[tuple[datetime, UsdPerHour | None]] = [(c.time, c.usd_per_hour) for c in recent]
    current = price.usd_per_hour
    if not changes or changes[-1][1] != current:
        quoted_at = price.as_of or now
        changes.append((max([quoted_at, *(moment for moment, _ in changes)]), current))
    return PriceHistory(((EVER, changes[0][1]), *changes[1:]))
