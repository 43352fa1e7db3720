"""Corrections: if later findings change a cost that was shown, that is recorded and announced.

The shown cost of a job, less its corrections, never falls.
"""

from dataclasses import replace
from decimal import Decimal

from spotrun.api.cost import MOST_SHOWN_POOLS
from spotrun.api.names import Reason
from spotrun.money.charges import NO_CHARGES
from spotrun.money.ledger import ByPool
from spotrun.money.units import NO_RATE, NO_USD, Usd
from spotrun.policies.cost.absent_workers import absent
from spotrun.policies.cost.bill import Bill, to_show
from spotrun.policies.cost.charges.ends import latest_ends
from spotrun.policies.cost.charges.times import ended_at, noted_ends, unsettled
from spotrun.policies.cost.spent import spent_between
from spotrun.policies.policy import Policy
from spotrun.state.actions import Announce
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Accumulators, Cost, Ends, PoolCost
from spotrun.state.view import View

_LEAST_ANNOUNCED = Usd(Decimal("0.01"))
_LATE_SECONDS = 5
"""Ends are known in whole seconds and a little late: such corrections are only in the status."""


def note_ends(view: View, status: JobState) -> JobState:
    """Record when lost workers' charges ended; a worker found to have run on is charged for it."""
    sums, known = status.accumulators, noted_ends(view)
    ends = _ends(view, status)
    if ends == known:
        return status
    more, noted = _paid_late(view, status, known), replace(sums, ends=ends)
    return replace(status, accumulators=_with_change(noted, to_show(more)) if more else noted)


def corrected(status: JobState, now: Bill) -> JobState:
    """Add to the corrections how much less the job owes than was shown before."""
    sums, before = status.accumulators, status.cost
    corrections = sums.corrected_usd or NO_USD
    shown = (before.usd or NO_USD) - (before.corrected_usd or NO_USD)
    less = shown - (to_show(now.usd) - corrections)
    if less <= NO_USD:
        return status
    return replace(status, accumulators=_with_change(sums, NO_USD - less))


def with_parts(cost: Cost, spot_usd: Usd, by_pool: ByPool) -> Cost:
    """Show the cost of spot and of each pool, and by how much these sums have fallen."""
    spot, before = to_show(spot_usd), {one.pool: one for one in cost.by_pool}
    emptied = sorted(before.keys() - by_pool.keys())[: max(MOST_SHOWN_POOLS - len(by_pool), 0)]
    pools = tuple(
        _pool_shown(name, before.get(name), to_show(by_pool.get(name, NO_USD)))
        for name in sorted({*by_pool, *emptied})
    )
    return replace(
        cost,
        spot_usd=spot if spot_usd or cost.spot_usd is not None else None,
        spot_corrected_usd=_fallen(cost.spot_usd, cost.spot_corrected_usd, spot),
        by_pool=pools,
    )


def correction_news(view: View, status: JobState) -> tuple[Announce, ...]:
    """Return an event for a correction that is large enough to notice."""
    cost, before = status.cost, view.job.status.cost
    change = (cost.corrected_usd or NO_USD) - (before.corrected_usd or NO_USD)
    usual = (before.usd_per_hour or NO_RATE).over(_LATE_SECONDS)
    if before.usd is None or abs(change.exact) < max(_LEAST_ANNOUNCED, usual).exact:
        return ()
    why = (
        "workers had run on while their nodes sent nothing"
        if change > NO_USD
        else "workers had ended, or prices had fallen, before the operator knew it"
    )
    words = f"the cost shown is corrected by {change} to {cost.usd or NO_USD}: {why}"
    return (Announce(Reason.COST_CORRECTED, words),)


def _with_change(sums: Accumulators, change: Usd) -> Accumulators:
    """Add a change to the corrections."""
    return replace(sums, corrected_usd=((sums.corrected_usd or NO_USD) + change).as_stored)


def _pool_shown(name: str, before: PoolCost | None, usd: Usd) -> PoolCost:
    if before is None:
        return PoolCost(pool=name, usd=usd)
    corrected = _fallen(before.usd, before.corrected_usd, usd)
    return PoolCost(pool=name, usd=usd, corrected_usd=corrected)


def _fallen(before: Usd | None, corrected: Usd | None, usd: Usd) -> Usd | None:
    """Return the corrections of a sum, including its fall if it has fallen."""
    less = (before or NO_USD) - usd
    return ((corrected or NO_USD) - less).as_stored if less > NO_USD else corrected


def _ends(view: View, status: JobState) -> Ends:
    """Return the ends of workers that no longer cost anything and cannot be settled yet."""
    known = noted_ends(view)
    found = {
        worker_id: known[worker_id] for worker_id in absent(view, status) if worker_id in known
    }
    for worker in unsettled(view, status):
        outcome = view.ends.get(worker.worker_id)
        end = None if outcome is not None and outcome.is_final else ended_at(view, worker)
        if end is not None:
            found[worker.worker_id] = end
    return latest_ends(found)


def _paid_late(view: View, status: JobState, known: Ends) -> Usd:
    """Return what workers have cost after the recorded end of their charge."""
    book, total = status.accumulators.rates, NO_USD
    for worker_id, noted in known.items():
        worker = view.by_worker_id.get(worker_id)
        end = (ended_at(view, worker) or view.now) if worker is not None else noted
        total += spent_between(book.get(worker_id, NO_CHARGES), noted, end).usd
    return total


ENDS_OF_LOST_WORKERS = Policy(note_ends)
CORRECTIONS = Policy(announce=correction_news)
