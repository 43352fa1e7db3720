"""What a job costs: its workers' shares of their nodes, for as long as they have them.

What a worker costs is a function of when it began and ended and of the prices in between, so it
does not matter how often it is computed, or by which operator.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from spotrun.api.cost import Accumulators
from spotrun.api.field_types.amounts import Amount
from spotrun.money.charges import NO_CHARGES, Book
from spotrun.money.ledger import ByPool, Spent, added
from spotrun.money.units import NO_RATE, Usd, UsdPerHour
from spotrun.policies.cost.absent_workers import absent, absent_rate
from spotrun.policies.cost.by_pool import read_pools, write_pools
from spotrun.policies.cost.charges.rates import read_book
from spotrun.policies.cost.charges.times import all_ends, unsettled
from spotrun.policies.cost.spent import priced
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View

_SHOWN_PLACES = 4  # of a sum that people read; what is added up is exact

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


def bill(view: View, status: JobState) -> Bill:
    """Add up what is settled and what is not."""
    sums = status.accumulators or Accumulators()
    now = view.once_unlimited(
        "bill", (sums.rates, status.settled), lambda: _unsettled_bill(view, status)
    )
    return replace(
        now,
        usd=Usd.of(sums.usd) + now.usd,
        spot_usd=Usd.of(sums.spot_usd) + now.spot_usd,
        by_pool=added(read_pools(sums.by_pool), now.by_pool),
        is_known=sums.usd is not None or now.is_known,
        is_complete=sums.unpriced_seconds is None and now.is_complete,
    )


def _unsettled_bill(view: View, status: JobState) -> Bill:
    """Add up what is not settled: most policies ask for it, and few change it."""
    book, workers = read_book(view, status.accumulators), unsettled(view, status)
    total = sum(absent(view, status).values(), priced(view, workers, book))
    ends = all_ends(view)
    running = tuple(worker for worker in workers if ends[worker.serial] is None)
    return Bill(
        usd=total.usd,
        spot_usd=total.spot_usd,
        by_pool=total.by_pool,
        usd_per_hour=rate_of(running, book) + absent_rate(view, status),
        running=running,
        unpriced=tuple(worker for worker in running if worker.serial not in book),
        is_known=bool(book),
        is_complete=all(worker.serial in book for worker in workers),
    )


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
    counts = Counter(book.get(worker.serial, NO_CHARGES) for worker in workers)
    rates = (charges[-1].usd_per_hour * count for charges, count in counts.items() if charges)
    return sum(rates, NO_RATE)
