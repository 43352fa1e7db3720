"""What workers have cost: the time at each price, added up exactly before it is rounded."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from spotrun.money.units import NO_USD, Usd, UsdPerHour, total_over
from spotrun.policies.cost.by_pool import ByPool, added
from spotrun.policies.cost.charges.rates import Book, Charges
from spotrun.policies.cost.charges.times import all_ends, started_at
from spotrun.state.snapshot import Worker
from spotrun.state.view import View

_NOTHING = timedelta(0)


@dataclass(frozen=True)
class Spent:
    """What workers have cost, and for how long their price was unknown."""

    usd: Usd = NO_USD
    spot_usd: Usd = NO_USD  # of that
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


def priced(view: View, workers: Iterable[Worker], book: Book) -> Spent:
    """What workers have cost by now."""
    return priced_by(view.now, workers, book, all_ends(view))


def priced_by(
    by: datetime, workers: Iterable[Worker], book: Book, ends: Mapping[int, datetime | None]
) -> Spent:
    """What workers have cost by a moment, of whose charges these ends were known."""
    tally = _Tally()
    for worker in workers:
        start, end = started_at(worker), min(ends.get(worker.serial) or by, by)
        if start is not None and start < end:
            tally.add(book.get(worker.serial, ()), start, end)
    return tally.total()


def spent_between(charges: Charges, start: datetime, end: datetime) -> Spent:
    """Return what a worker of these prices costs from start to end; nothing if that is no time."""
    tally = _Tally()
    if start < end:
        tally.add(charges, start, end)
    return tally.total()


@dataclass
class _Tally:
    """Adds up the time at each price before it is multiplied: gangs cost the same for long."""

    lives: dict[int, tuple[Charges, list[tuple[datetime, datetime]]]] = field(default_factory=dict)

    def add(self, charges: Charges, start: datetime, end: datetime) -> None:
        known = self.lives.get(id(charges))
        if known is None:
            known = self.lives[id(charges)] = (charges, [])
        known[1].append((start, end))

    def total(self) -> Spent:
        unknown, parts = _NOTHING, dict[tuple[str, bool], list[tuple[UsdPerHour, timedelta]]]()
        for charges, lives in self.lives.values():
            if not charges:
                unknown += sum((end - start for start, end in lives), _NOTHING)
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
        return Spent(usd, spot_usd, by_pool, _length(unknown))


def _times(charges: Charges, lives: Iterable[tuple[datetime, datetime]]) -> list[timedelta]:
    """For how long each charge is paid, by all together.

    Only the first and the last charge of a life are looked at; the whole ones between are counted.
    """
    since = [charge.since for charge in charges]
    times, whole = [_NOTHING] * len(charges), [0] * (len(charges) + 1)
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


def _length(time: timedelta) -> Decimal:
    return Decimal(time // timedelta(microseconds=1)) / 1_000_000
