"""Workers whose pod the operator does not see: it is hidden, or gone without a known end.

It is not known any more when such a worker got its node. But it is known what it had cost when the
cost was stored last: the shown cost of the job, less the cost of the others by then. From then on
the worker costs its last price, until the recorded end of its charge, or until its pod was missed.
If its pod went while no operator ran, it is not known how long it ran on: the shown cost stays.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from spotrun.money.charges import Charge
from spotrun.money.ledger import Spent
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour, seconds_between
from spotrun.policies.cost.charges.times import noted_ends, unsettled
from spotrun.policies.cost.spent import priced_by
from spotrun.state.job_state import JobState
from spotrun.state.view import View


def absent(view: View, status: JobState) -> Mapping[int, Spent]:
    """Return the cost of each absent worker that is not settled, by worker id."""
    found = view.once("absent", (), lambda: _absent(view))
    if not found:
        return found  # the usual case
    settled = status.settled
    return {worker_id: spent for worker_id, spent in found.items() if worker_id not in settled}


def vanished(view: View, status: JobState) -> Mapping[int, Spent]:
    """Return the same for workers whose pod is known to be gone."""
    return {n: spent for n, spent in absent(view, status).items() if n in view.job.vanished}


def absent_rate(view: View, status: JobState) -> UsdPerHour:
    """Return the cost per hour of absent workers that may still run."""
    last, over = _last_charges(view), view.job.vanished.keys() | noted_ends(view).keys()
    return sum((last[n].usd_per_hour for n in absent(view, status) if n not in over), NO_RATE)


def _absent(view: View) -> dict[int, Spent]:
    last, shown_at = _last_charges(view), _shown_at(view)
    if not last:
        return {}
    shown, total = _shown(view, shown_at), sum((one.usd_per_hour for one in last.values()), NO_RATE)
    found = {}
    for worker_id, charge in last.items():
        rate = charge.usd_per_hour
        share = rate.exact / total.exact if total else Fraction(1, len(last))
        usd = shown * share + rate.over(_seconds_since(view, worker_id, shown_at))
        found[worker_id] = Spent(usd, usd if charge.is_spot else NO_USD, {charge.pool: usd})
    return found


def _last_charges(view: View) -> Mapping[int, Charge]:
    """Return the last stored charge of each absent worker."""

    def find() -> dict[int, Charge]:
        status = view.job.status
        book, settled = status.accumulators.rates, status.settled
        numbers = (n for n in book.keys() - view.by_worker_id.keys() if n not in settled)
        return {n: book[n][-1] for n in sorted(numbers)}

    return view.once("last charges of absent workers", (), find)


def _shown(view: View, shown_at: datetime) -> Usd:
    """Return what absent workers had cost together when the cost was stored last.

    The ends of the others' charges are those that were known then. If the others turn out to owe
    less, the absent workers do not owe the difference: it is a correction.
    """
    status = view.job.status
    sums, shown = status.accumulators, status.cost.usd or NO_USD
    others = priced_by(shown_at, unsettled(view, status), sums.rates, noted_ends(view)).usd
    return max(shown - (sums.usd or NO_USD) - others, NO_USD)


def _shown_at(view: View) -> datetime:
    return view.job.status.cost.as_of or view.now


def _seconds_since(view: View, worker_id: int, shown_at: datetime) -> Decimal:
    """Return for how many seconds a worker has cost something since the shown cost."""
    missed_at = view.job.vanished.get(worker_id, view.now) or shown_at
    end = min(missed_at, noted_ends(view).get(worker_id, missed_at))
    return max(seconds_between(shown_at, end), Decimal(0))
