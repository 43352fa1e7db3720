"""The cost as status shows it; it stays unchanged as long as nothing is spent."""

from dataclasses import replace

from spotrun.api.names import Pricing
from spotrun.money.units import Usd
from spotrun.policies.budget.policy import with_budget
from spotrun.policies.cost.bill import Bill, bill, to_show
from spotrun.policies.cost.corrections import corrected, with_parts
from spotrun.policies.cost.goodput.ratio import with_goodput
from spotrun.policies.cost.goodput.steps import with_work
from spotrun.policies.cost.goodput.waste import waste_shown
from spotrun.policies.cost.pricing import state_pricing
from spotrun.policies.cost.storage.ledger import storage_shown
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Cost
from spotrun.state.view import View


def show_cost(view: View, status: JobState) -> JobState:
    """Show what the job has cost, what it costs now, and what the money bought."""
    now, before = bill(view, status), status.cost
    status = replace(status, cost=_with_storage(before, view, status))
    if not (now.running or now.is_known) and now.is_complete:
        return status
    status = corrected(status, now)
    shown = _shown(view, status, now)
    if shown != before or now.usd_per_hour:
        status = replace(status, cost=replace(shown, as_of=view.now))
    return state_pricing(view, status, now)


def _shown(view: View, status: JobState, now: Bill) -> Cost:
    sums = status.accumulators
    pricing = Pricing.COMPLETE if now.is_complete else Pricing.PARTIAL
    cost = replace(status.cost, pricing=pricing)
    if not now.is_known:
        return cost
    cost = replace(
        with_parts(cost, now.spot_usd, now.by_pool),
        usd=to_show(now.usd),
        usd_per_hour=to_show(now.usd_per_hour),
        corrected_usd=sums.corrected_usd,
        idle_usd=_rounded(sums.idle_usd),
        estimated_transfer_usd=_rounded(sums.transfer_usd),
        waste=waste_shown(sums),
    )
    cost = with_goodput(with_work(cost, status, now.usd), sums, now.usd)
    return with_budget(cost, view, now)


def _with_storage(cost: Cost, view: View, status: JobState) -> Cost:
    """Show the cost of storage, even if nothing else has cost anything."""
    shown = storage_shown(view, status.accumulators.storage)
    return replace(cost, storage=shown) if shown != cost.storage else cost


def _rounded(usd: Usd | None) -> Usd | None:
    return None if usd is None else to_show(usd)


COST = Policy(show_cost, is_for_readers=True)
