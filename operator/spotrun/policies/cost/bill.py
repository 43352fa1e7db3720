"""The cost of a job: its workers' shares of their nodes, for as long as they have them.

The cost of a worker depends only on when it began and ended and on the prices in between, so it
does not matter how often it is computed, or by which operator.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from spotrun.money.charges import NO_CHARGES, Book
from spotrun.money.ledger import ByPool, Spent, added
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour
from spotrun.policies.cost.absent_workers import absent, absent_rate
from spotrun.policies.cost.charges.times import all_ends, unsettled
from spotrun.policies.cost.spent import priced
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Accumulators
from spotrun.state.view import View

_SHOWN_PLACES = 4  # decimal places of a shown sum; the sums that are added up are exact

Money = TypeVar("Money", Usd, UsdPerHour)


@dataclass(frozen=True)
class Bill:
    """The cost of a job by now, and its cost per hour."""

    usd: Usd
    spot_usd: Usd  # the part of `usd` for spot
    by_pool: ByPool  # the same as `usd`
    usd_per_hour: UsdPerHour
    running: tuple[Worker, ...]  # workers that cost something now, at a known price or not
    unpriced: tuple[Worker, ...]  # the running workers whose price is unknown
    is_known: bool  # whether any price was ever known
    is_complete: bool  # whether it contains the cost of all workers
    storage_usd: Usd = NO_USD  # of checkpoints in an object store; not in `usd`

    @property
    def spent_usd(self) -> Usd:
        """The sum that a budget pays: for workers, and for their checkpoints."""
        return self.usd + self.storage_usd


def bill(view: View, status: JobState) -> Bill:
    """Add up the settled and the unsettled cost."""
    sums = status.accumulators
    now = view.once_unlimited(
        "bill", (sums.rates, status.settled), lambda: _unsettled_bill(view, status)
    )
    return replace(
        now,
        usd=(sums.usd or NO_USD) + now.usd,
        spot_usd=(sums.spot_usd or NO_USD) + now.spot_usd,
        by_pool=added(sums.by_pool, now.by_pool),
        is_known=sums.usd is not None or now.is_known,
        is_complete=sums.unpriced_seconds is None and now.is_complete,
        storage_usd=sums.storage.usd.total if sums.storage is not None else NO_USD,
    )


def _unsettled_bill(view: View, status: JobState) -> Bill:
    """Add up the cost that is not settled: most policies ask for it, and few change it."""
    book, workers = status.accumulators.rates, unsettled(view, status)
    total = sum(absent(view, status).values(), priced(view, workers, book))
    ends = all_ends(view)
    running = tuple(worker for worker in workers if ends[worker.worker_id] is None)
    return Bill(
        usd=total.usd,
        spot_usd=total.spot_usd,
        by_pool=total.by_pool,
        usd_per_hour=rate_of(running, book) + absent_rate(view, status),
        running=running,
        unpriced=tuple(worker for worker in running if worker.worker_id not in book),
        is_known=bool(book),
        is_complete=all(worker.worker_id in book for worker in workers),
    )


def charged(sums: Accumulators, spent: Spent) -> Accumulators:
    """Add a cost to the sums, so that it is not computed again."""
    by_pool = added(sums.by_pool, spent.by_pool) if spent.by_pool else sums.by_pool
    spot_usd = (sums.spot_usd or NO_USD) + spent.spot_usd
    return replace(
        sums,
        usd=((sums.usd or NO_USD) + spent.usd).as_stored,
        spot_usd=spot_usd.as_stored if spent.spot_usd else sums.spot_usd,
        by_pool={pool: usd.as_stored for pool, usd in by_pool.items()},
    )


def to_show(money: Money) -> Money:
    """Return the money rounded for people."""
    return type(money)(round(money.exact, _SHOWN_PLACES)).as_stored


def rate_of(workers: Iterable[Worker], book: Book) -> UsdPerHour:
    """Return what workers cost together, each at its last price."""
    counts = Counter(book.get(worker.worker_id, NO_CHARGES) for worker in workers)
    rates = (charges[-1].usd_per_hour * count for charges, count in counts.items() if charges)
    return sum(rates, NO_RATE)
