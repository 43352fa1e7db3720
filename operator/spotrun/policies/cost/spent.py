"""The cost of a job's workers so far, computed with the ledger."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from spotrun.money.charges import NO_CHARGES, Book, Charges
from spotrun.money.ledger import Ledger, Spent
from spotrun.policies.cost.charges.times import all_ends, started_at
from spotrun.state.snapshot import Worker
from spotrun.state.view import View


def priced(view: View, workers: Iterable[Worker], book: Book) -> Spent:
    """Return the cost of workers by now."""
    return priced_by(view.now, workers, book, all_ends(view))


def priced_by(
    by: datetime, workers: Iterable[Worker], book: Book, ends: Mapping[int, datetime | None]
) -> Spent:
    """Return the cost of workers by a moment, with these ends of their charges."""
    ledger = Ledger()
    for worker in workers:
        start, end = started_at(worker), min(ends.get(worker.worker_id) or by, by)
        if start is not None:
            ledger.add(book.get(worker.worker_id, NO_CHARGES), start, end)
    return ledger.total()


def spent_between(charges: Charges, start: datetime, end: datetime) -> Spent:
    """Return the cost of a worker at these prices; nothing if the end is not after the start."""
    ledger = Ledger()
    ledger.add(charges, start, end)
    return ledger.total()
