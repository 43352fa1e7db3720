"""What a job costs: its workers' shares of their nodes, for as long as they have them.

What a worker costs is a function of when it began and ended and of the prices in between, so it
does not matter how often it is computed, or by which operator.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar

from spotrun.api.amounts import Amount
from spotrun.api.cost import Accumulators
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.cost.pools import ByPool, added, read_pools, write_pools
from spotrun.decide.cost.rates import Book, Charge, Charges, read_book
from spotrun.decide.cost.times import ended_at, started_at, unsettled
from spotrun.decide.snapshot import Worker
from spotrun.decide.view import View
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour

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
    book, workers = read_book(sums), unsettled(view, status)
    total = priced(view, workers, book)
    running = tuple(worker for worker in workers if ended_at(view, worker) is None)
    return Bill(
        usd=Usd.of(sums.usd) + total.usd,
        spot_usd=Usd.of(sums.spot_usd) + total.spot_usd,
        by_pool=added(read_pools(sums.by_pool), total.by_pool),
        usd_per_hour=rate_of(running, book),
        running=running,
        unpriced=tuple(worker for worker in running if worker.serial not in book),
        is_known=sums.usd is not None or bool(book),
        is_complete=sums.unpriced_seconds is None and all(w.serial in book for w in workers),
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
            {pool: usd - part.by_pool.get(pool, NO_USD) for pool, usd in self.by_pool.items()},
            self.unpriced_seconds - part.unpriced_seconds,
        )


def priced(view: View, workers: Iterable[Worker], book: Book) -> Spent:
    """What workers have cost by now."""
    tally = _Tally()
    for worker in workers:
        start, end = started_at(worker), ended_at(view, worker) or view.now
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
    """Adds up the time at each price before it is multiplied: gangs cost the same for long.

    Workers share the charges that status holds, so these are told apart by identity: their exact
    prices are slow to compare.
    """

    times: dict[int, tuple[Charge, timedelta]] = field(default_factory=dict)
    unknown: timedelta = _NOTHING

    def add(self, charges: Charges, start: datetime, end: datetime) -> None:
        if not charges:
            self.unknown += end - start
        for index, charge in enumerate(charges):
            until = charges[index + 1].since if index + 1 < len(charges) else end
            length = min(until, end) - max(charge.since, start)
            if length > _NOTHING:
                _, known = self.times.get(id(charge), (charge, _NOTHING))
                self.times[id(charge)] = (charge, known + length)

    def total(self) -> Spent:
        usd, spot_usd, by_pool = NO_USD, NO_USD, dict[str, Usd]()
        for charge, time in self.times.values():
            part = charge.usd_per_hour.over(_length(time))
            usd, spot_usd = usd + part, spot_usd + part if charge.is_spot else spot_usd
            by_pool[charge.pool] = by_pool.get(charge.pool, NO_USD) + part
        return Spent(usd, spot_usd, by_pool, _length(self.unknown))


def _length(time: timedelta) -> Decimal:
    return Decimal(time // timedelta(microseconds=1)) / 1_000_000
