"""What later findings change in a cost that was shown: noted, and said to be corrections.

What was shown of a job's cost, less its corrections, never falls.
"""

from dataclasses import replace
from decimal import Decimal

from spotrun.api.cost import MOST_SHOWN_POOLS, Accumulators, Cost, PoolCost
from spotrun.api.field_types.amounts import Amount, SignedAmount
from spotrun.api.names import Reason
from spotrun.money.charges import NO_CHARGES
from spotrun.money.ledger import ByPool
from spotrun.money.units import NO_USD, Usd, UsdPerHour
from spotrun.policies.cost.absent_workers import absent
from spotrun.policies.cost.bill import Bill, as_shown
from spotrun.policies.cost.charges.ends import Ends, read_ends, write_ends
from spotrun.policies.cost.charges.rates import read_book
from spotrun.policies.cost.charges.times import ended_at, noted_ends, unsettled
from spotrun.policies.cost.spent import spent_between
from spotrun.state.actions import Announce
from spotrun.state.job_state import JobState
from spotrun.state.view import View

_LEAST_TOLD = Usd(Decimal("0.01"))
_LATE_SECONDS = 5
"""Ends are told in whole seconds, and a moment late: such corrections are in the status alone."""


def note_ends(view: View, status: JobState) -> JobState:
    """Note when the charge of lost workers ended; who is found to have run on pays for it."""
    sums, known = status.accumulators or Accumulators(), noted_ends(view)
    ends = _ends(view, status)
    if ends == known:
        return status
    update: dict[str, object] = {"ends": write_ends(ends)}
    more = _paid_late(view, status, known)
    if more:
        update["corrected_usd"] = (Usd.of(sums.corrected_usd) + as_shown(more)).signed_amount
    return replace(status, accumulators=sums.model_copy(update=update))


def corrected(status: JobState, now: Bill) -> JobState:
    """Add to the corrections what less is owed than was shown before."""
    sums, before = status.accumulators or Accumulators(), status.cost or Cost()
    corrections = Usd.of(sums.corrected_usd)
    shown = Usd.of(before.usd) - Usd.of(before.corrected_usd)
    less = shown - (as_shown(now.usd) - corrections)
    if less <= NO_USD:
        return status
    update = {"corrected_usd": (corrections - less).signed_amount}
    return replace(status, accumulators=sums.model_copy(update=update))


def corrections_shown(status: JobState) -> SignedAmount | None:
    """What of a job's cost says what was corrected; None: nothing."""
    return status.accumulators.corrected_usd if status.accumulators is not None else None


def parts_shown(before: Cost, spot_usd: Usd, by_pool: ByPool) -> dict[str, object]:
    """What of a job's cost says how much of it is spot's, and each pool's, and what has fallen."""
    spot, then = as_shown(spot_usd), {one.pool: one for one in before.by_pool or ()}
    emptied = sorted(then.keys() - by_pool.keys())[: max(MOST_SHOWN_POOLS - len(by_pool), 0)]
    pools = tuple(
        _pool_shown(name, then.get(name), as_shown(by_pool.get(name, NO_USD)))
        for name in sorted({*by_pool, *emptied})
    )
    return {
        "spot_usd": spot.amount if spot_usd or before.spot_usd is not None else None,
        "spot_corrected_usd": _fallen(before.spot_usd, before.spot_corrected_usd, spot),
        "by_pool": pools or None,
    }


def correction_news(old: JobState, new: JobState) -> tuple[Announce, ...]:
    """An event for a correction that somebody would notice."""
    cost, before = new.cost or Cost(), old.cost or Cost()
    change = Usd.of(cost.corrected_usd) - Usd.of(before.corrected_usd)
    usual = UsdPerHour.of(before.usd_per_hour).over(_LATE_SECONDS)
    if before.usd is None or abs(change.exact) < max(_LEAST_TOLD, usual).exact:
        return ()
    why = (
        "workers had run on while nothing was heard of their nodes"
        if change > NO_USD
        else "workers had ended, or prices had fallen, before that was known"
    )
    words = f"the cost shown is corrected by {change} to {Usd.of(cost.usd)}: {why}"
    return (Announce(Reason.COST_CORRECTED, words),)


def _pool_shown(name: str, before: PoolCost | None, usd: Usd) -> PoolCost:
    if before is None:
        return PoolCost(pool=name, usd=usd.amount)
    corrected = _fallen(before.usd, before.corrected_usd, usd)
    return PoolCost(pool=name, usd=usd.amount, corrected_usd=corrected)


def _fallen(before: Amount | None, corrected: SignedAmount | None, usd: Usd) -> SignedAmount | None:
    """Return the corrections of a sum together with its fall, if it has fallen."""
    less = Usd.of(before) - usd
    return (Usd.of(corrected) - less).signed_amount if less > NO_USD else corrected


def _ends(view: View, status: JobState) -> Ends:
    """Return the ends of the workers that have stopped costing and cannot be settled yet."""
    known = noted_ends(view)
    found = {serial: known[serial] for serial in absent(view, status) if serial in known}
    for worker in unsettled(view, status):
        fate = view.ends.get(worker.serial)
        end = None if fate is not None and fate.is_final else ended_at(view, worker)
        if end is not None:
            found[worker.serial] = end
    return read_ends(Accumulators(ends=write_ends(found))) if found else found


def _paid_late(view: View, status: JobState, known: Ends) -> Usd:
    """Return what workers have cost after their charge was said to have ended."""
    book, total = read_book(view, status.accumulators), NO_USD
    for serial, noted in known.items():
        worker = view.by_serial.get(serial)
        end = (ended_at(view, worker) or view.now) if worker is not None else noted
        total += spent_between(book.get(serial, NO_CHARGES), noted, end).usd
    return total
