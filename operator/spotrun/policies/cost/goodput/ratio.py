"""Goodput: the share of the money that bought new steps, and the cost of such a step.

The rest of the money paid for starting, for waiting for peers and checkpoints, and for steps done
twice.
"""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from spotrun.money.forecast import usd_per
from spotrun.money.savings import goodput
from spotrun.money.units import NO_USD, Usd, UsdPerHour
from spotrun.policies.cost.bill import Bill, bill, rate_of
from spotrun.policies.cost.charges.times import ended_at
from spotrun.policies.cost.goodput.steps import first_step, step_seconds
from spotrun.policies.cost.goodput.waste import with_waited
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Accumulators, Cost
from spotrun.state.view import View
from spotrun.state.world_members import last_members, last_progress, training
from spotrun.wire import Progress

_STEP_PLACES = 8  # a step may cost a hundredth of a cent
_MILLION = 10**6
_MOST_SAMPLES = Decimal(10**9)  # of a step: more than any trainer really has


def count_useful(view: View, status: JobState) -> JobState:
    """Add the cost of steps that take the job further than ever before."""
    sums, now = status.accumulators, status.progress
    if not training(status) or now.step is None:
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
    # The workers report their own steps: these count for no more than what was paid. A correction
    # of the cost is not subtracted from them, because no counter may fall.
    known = sums.useful_usd or NO_USD
    total = max(known, min(known + useful, spent.usd))
    sums = replace(sums, first_step=first, peak_step=now.step, useful_usd=total.as_stored)
    sums = with_waited(sums, last_progress(view, status), useful, total)
    return replace(status, accumulators=_with_samples(sums, view))


def with_goodput(cost: Cost, sums: Accumulators, spent: Usd) -> Cost:
    """Show the share of the cost that bought progress, and the cost of that progress."""
    steps = (sums.peak_step or 0) - (sums.first_step or 0)
    if not steps or not spent:
        return cost
    share, usd_per_step = goodput(sums.useful_usd or NO_USD, spent), usd_per(spent, steps)
    cost = replace(cost, goodput=share, usd_per_step=_rounded(usd_per_step))
    if sums.samples_per_step is None:
        return cost
    samples = steps * Fraction(sums.samples_per_step)
    cost = replace(cost, usd_per_million_samples=_rounded(usd_per(spent, samples, _MILLION)))
    if not sums.epoch_samples:
        return cost
    return replace(cost, usd_per_epoch=_rounded(usd_per(spent, samples, sums.epoch_samples)))


def _with_samples(sums: Accumulators, view: View) -> Accumulators:
    """Store the samples that the furthest worker reports: costs are settled after its end."""
    report = _furthest(view)
    if report is None:
        return sums
    per_step = min(Decimal(report.samples) / report.step, _MOST_SAMPLES)
    return replace(sums, samples_per_step=round(per_step, 12), epoch_samples=report.epoch_samples)


def _rate(view: View, status: JobState, spent: Bill) -> UsdPerHour:
    """Return the rate of the job while it did the steps that are reported now."""
    ended = [one for one in last_members(view, status) if ended_at(view, one) is not None]
    if not ended:
        return spent.usd_per_hour
    return spent.usd_per_hour + rate_of(ended, status.accumulators.rates)


def _furthest(view: View) -> Progress | None:
    """Return the furthest report of workers that trained; None if the script counts no samples."""
    # This uses the status before this pass: a world that has just ended is not in the next status.
    reports = (one for one in last_progress(view, view.job.status) if one.step and one.samples)
    return max(reports, key=lambda one: one.step, default=None)


def _rounded(usd: Usd | None) -> Usd | None:
    return None if usd is None else Usd(round(usd.exact, _STEP_PLACES)).as_stored


GOODPUT = Policy(count_useful, is_for_readers=True)
