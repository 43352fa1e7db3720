"""What is said of a job's cost; as long as nothing is spent there is nothing new to say."""

from dataclasses import replace

from spotrun.api.cost import Cost, Pricing
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time
from spotrun.money.units import Usd
from spotrun.policies.budget.policy import budget_shown
from spotrun.policies.cost.bill import Bill, bill, to_show
from spotrun.policies.cost.corrections import corrected, corrections_shown, parts_shown
from spotrun.policies.cost.goodput.ratio import goodput_shown
from spotrun.policies.cost.goodput.steps import work_shown
from spotrun.policies.cost.goodput.waste import waste_shown
from spotrun.policies.cost.pricing import state_pricing
from spotrun.policies.cost.transfer import transfer_shown
from spotrun.state.job_state import JobState
from spotrun.state.view import View


def show_cost(view: View, status: JobState) -> JobState:
    """Say what the job has cost, what it costs, and what that brought."""
    now, before = bill(view, status), status.cost or Cost()
    if not (now.running or now.is_known) and now.is_complete:
        return status
    status = corrected(status, now)
    shown = before.model_copy(update=_shown(view, status, now))
    if shown != before or now.usd_per_hour:
        shown = shown.model_copy(update={"as_of": Time.of(view.now)})
        status = replace(status, cost=shown)
    return state_pricing(view, status, now)


def _shown(view: View, status: JobState, now: Bill) -> dict[str, object]:
    pricing = Pricing.COMPLETE if now.is_complete else Pricing.PARTIAL
    if not now.is_known:
        return {"pricing": pricing}
    return {
        "usd": to_show(now.usd),
        "usd_per_hour": to_show(now.usd_per_hour),
        **parts_shown(status.cost or Cost(), now.spot_usd, now.by_pool),
        "corrected_usd": corrections_shown(status),
        "pricing": pricing,
        "idle_usd": _idle_shown(status),
        "estimated_transfer_usd": transfer_shown(status),
        "waste": waste_shown(status),
        **work_shown(status, now.usd),
        **goodput_shown(status, now.usd),
        **budget_shown(view, now),
    }


def _idle_shown(status: JobState) -> Amount | None:
    unused = status.accumulators.idle_usd if status.accumulators is not None else None
    return to_show(Usd.of(unused)) if unused is not None else None
