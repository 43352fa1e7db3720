"""What a job costs: its workers' shares of their nodes, for as long as they have them.

What a worker costs is a function of when it began and ended and of the prices in between, so it
does not matter how often it is computed, or by which operator.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import TypeVar

from spotrun.api.amounts import Amount
from spotrun.api.cost import Accumulators
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.cost.pools import ByPool, added, read_pools, write_pools
from spotrun.decide.cost.rates import Book, Charge, Charges, read_book
from spotrun.decide.cost.times import all_ends, started_at, unsettled
from spotrun.decide.snapshot import Worker
from spotrun.decide.view import View
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour, total_over

_SHOWN_PLACES = 4  # of a sum that people read; what is added up is exact
_NOTHING = timedelta(0)

Money = TypeVar("Money", Usd, UsdPerHour)


@dataclass(frozen=True)
class Bill:
    """What a job has cost by now, and what it costs."""

    usd: Usd
    spot_usd: Usd  # of that
    by_pool: ByPool  # the same as `usd`
    usd_per_hour: UsdPerHour
    running: tuple[Worker, ...]  # that cost something now, at a known price or not
    unpriced: tuple[Worker, ...]  # those of them whose price is unknown
    is_known: bool  # whether any price ever was
    is_complete: bool  # whether it is all there is to pay


def bill(view: View, status: TrainingJobStatus) -> Bill:
    """Add up what is settled and what is not."""
    sums = status.accumulators or Accumulators()
    now = view.once("bill", (sums.rates, status.settled), lambda: _unsettled_bill(view, status))
    return replace(
        now,
        usd=Usd.of(sums.usd) + now.usd,
        spot_usd=Usd.of(sums.spot_usd) + now.spot_usd,
        by_pool=added(read_pools(sums.by_pool), now.by_pool),
        is_known=sums.usd is not None or now.is_known,
        is_complete=sums.unpriced_seconds is None and now.is_complete,
    )


def _unsettled_bill(view: View, status: TrainingJobStatus) -> Bill:
    """Add up what is not settled: most policies ask for it, and few change it."""
    book, workers = read_book(view, status.accumulators), unsettled(view, status)
    total = priced(view, workers, book)
    ends = all_ends(view)
    running = tuple(worker for worker in workers if ends[worker.serial] is None)
    return Bill(
        usd=total.usd,
        spot_usd=total.spot_usd,
        by_pool=total.by_pool,
        usd_per_hour=rate_of(running, book),
        running=running,
        unpriced=tuple(worker for worker in running if worker.serial not in book),
        is_known=bool(book),
        is_complete=all(worker.serial in book for worker in workers),
    )


@dataclass(frozen=True)
class Spent:
    """What workers have cost, and for how long their price was unknown."""

    usd: Usd = NO_USD
    spot_usd: Usd = NO_USD  # of that
    by_pool: ByPool = field(default_factory=dict)  # the same as `usd`
    unpriced_seconds: Decimal = Decimal(0)

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
    tally, ends = _Tally(), all_ends(view)
    for worker in workers:
        start, end = started_at(worker), ends[worker.serial] or view.now
        if start is not None and start < end:
            tally.add(book.get(worker.serial, ()), start, end)
    return tally.total()


def spent_between(charges: Charges, start: datetime, end: datetime) -> Spent:
    """Return what a worker of these prices costs from start to end; nothing if that is no time."""
    tally = _Tally()
    if start < end:
        tally.add(charges, start, end)
    return tally.total()


def charged(sums: Accumulators, spent: Spent) -> dict[str, object]:
    """What changes in the sums when they take that in, so that it is not reckoned anew."""
    update: dict[str, object] = {"usd": (Usd.of(sums.usd) + spent.usd).amount}
    if spent.spot_usd:
        update["spot_usd"] = (Usd.of(sums.spot_usd) + spent.spot_usd).amount
    if spent.by_pool:
        update["by_pool"] = write_pools(added(read_pools(sums.by_pool), spent.by_pool))
    return update


def to_show(money: Money) -> Amount:
    """A sum as people want to read it."""
    return as_shown(money).amount


def as_shown(money: Money) -> Money:
    """The same, to reckon with."""
    return type(money)(round(money.exact, _SHOWN_PLACES))


def rate_of(workers: Iterable[Worker], book: Book) -> UsdPerHour:
    """What workers cost together, each at its last price."""
    counts: dict[int, tuple[Charge, int]] = {}
    for worker in workers:
        charges = book.get(worker.serial)
        if charges:
            charge = charges[-1]
            counts[id(charge)] = (charge, counts.get(id(charge), (charge, 0))[1] + 1)
    rates = (charge.usd_per_hour * number for charge, number in counts.values())
    return sum(rates, NO_RATE)


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
