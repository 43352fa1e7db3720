"""How much of the money bought steps that nobody had done before, and what such a step costs.

All else of what was paid went into starting, into waiting for peers and checkpoints, and into steps
done twice.
"""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from spotrun.api.cost import Accumulators
from spotrun.api.field_types.amounts import Amount
from spotrun.money.forecast import usd_per
from spotrun.money.savings import goodput
from spotrun.money.units import Usd, UsdPerHour
from spotrun.policies.cost.bill import Bill, bill, rate_of
from spotrun.policies.cost.charges.rates import read_book
from spotrun.policies.cost.charges.times import ended_at
from spotrun.policies.cost.goodput.steps import first_step, step_seconds
from spotrun.policies.cost.goodput.waste import waited
from spotrun.state.job_state import JobState
from spotrun.state.view import View
from spotrun.state.world_members import last_crew, last_told, training
from spotrun.wire import Progress

_STEP_PLACES = 8  # a step may cost a hundredth of a cent
_MILLION = 10**6
_MOST_SAMPLES = Decimal(10**9)  # of a step, beyond what any trainer counts truly


def count_useful(view: View, status: JobState) -> JobState:
    """Add what the steps have cost that take the job further than it ever was."""
    sums, now = status.accumulators or Accumulators(), status.progress
    if not training(status) or now is None or now.step is None:
        return status
    first, peak = sums.first_step, sums.peak_step or 0
    if first is not None and now.step <= peak:
        return status
    seconds = step_seconds(view, status)
    if not seconds:
        return status
    if first is None:
        first = peak = first_step(view, status, now.step, seconds)
    spent = bill(view, status)
    useful = _rate(view, status, spent).over((now.step - peak) * seconds)
    # Steps are counted by those who do them: they are worth no more than what was paid. What turns
    # out not to have been owed is not taken from them, for no counter may fall.
    known = Usd.of(sums.useful_usd)
    total = max(known, min(known + useful, spent.usd))
    update = {
        "first_step": first,
        "peak_step": now.step,
        "useful_usd": total.amount,
        **waited(view, status, useful, total),
        **_samples_told(view),
    }
    return replace(status, accumulators=sums.model_copy(update=update))


def goodput_shown(status: JobState, spent: Usd) -> dict[str, object]:
    """What of a job's cost says what became of it."""
    sums = status.accumulators or Accumulators()
    steps = (sums.peak_step or 0) - (sums.first_step or 0)
    if not steps or not spent:
        return {}
    shown: dict[str, object] = {
        "goodput": goodput(Usd.of(sums.useful_usd), spent),
        "usd_per_step": _rounded(usd_per(spent, steps)),
    }
    if sums.samples_per_step is not None:
        samples = steps * Fraction(sums.samples_per_step.decimal)
        shown["usd_per_million_samples"] = _rounded(usd_per(spent, samples, _MILLION))
        if sums.epoch_samples:
            shown["usd_per_epoch"] = _rounded(usd_per(spent, samples, sums.epoch_samples))
    return shown


def _samples_told(view: View) -> dict[str, object]:
    """What the furthest says of its samples: wanted beyond its end, for costs are settled later."""
    told = _furthest(view)
    if told is None:
        return {}
    per_step = min(Decimal(told.samples) / told.step, _MOST_SAMPLES)
    return {"samples_per_step": Amount.of(per_step), "epoch_samples": told.epoch_samples}


def _rate(view: View, status: JobState, spent: Bill) -> UsdPerHour:
    """What the job cost while it did the steps that are told now, of the last ones with the end."""
    ended = [one for one in last_crew(view, status) if ended_at(view, one) is not None]
    if not ended:
        return spent.usd_per_hour
    return spent.usd_per_hour + rate_of(ended, read_book(view, status.accumulators))


def _furthest(view: View) -> Progress | None:
    """What the furthest says of those who trained; None where the script tells of no samples."""
    # Of the world before this look: one that has ended by it is no more in the next status.
    told = (one for one in last_told(view, view.job.status) if one.step and one.samples)
    return max(told, key=lambda one: one.step, default=None)


def _rounded(usd: Usd | None) -> Amount | None:
    return None if usd is None else Usd(round(usd.exact, _STEP_PLACES)).amount
