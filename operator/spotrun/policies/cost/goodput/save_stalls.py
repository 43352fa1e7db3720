"""The cost of stalls of training for saves, by the time that trainers measure.

Trainers report the sum since the beginning of their world, so it does not matter how rarely the
operator looks.
"""

from dataclasses import replace
from decimal import Decimal
from statistics import median

from spotrun.money.units import NO_USD, Usd
from spotrun.policies.cost.bill import bill
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Accumulators
from spotrun.state.view import View
from spotrun.state.world_members import reported_progress, world_number


def saving_seconds(view: View, status: JobState) -> Decimal:
    """Return the median time that trainers have stood still to save in the present world."""
    present = world_number(status)
    reports = [one for one in reported_progress(view, status) if one.world_number == present]
    known = [one.checkpoint_seconds for one in reports if one.checkpoint_seconds is not None]
    return Decimal(f"{median(known):.6f}") if known else Decimal(0)


def count_saving(view: View, status: JobState) -> JobState:
    """Add the cost of stalls for saves since the last pass."""
    sums, present = status.accumulators, world_number(status)
    known = sums.checkpoint_seconds if sums.checkpoint_world_number == present else None
    counted, seconds = known or Decimal(0), saving_seconds(view, status)
    if seconds <= counted:
        return status
    now, before = bill(view, status), sums.checkpoint_usd or NO_USD
    new = now.usd_per_hour.over(seconds - counted)
    # The workers report this time themselves: it costs no more than the cost that nothing else
    # explains. Time beyond that waits until more was paid.
    explained = (sums.useful_usd or NO_USD) + (sums.lost_work_usd or NO_USD) + before
    left = now.usd - explained
    if left <= NO_USD:
        return status
    if new > left:
        new, seconds = left, counted + (now.usd_per_hour.seconds_for(left) or Decimal(0))
    sums = _with_stalls(sums, before + new, seconds, present)
    return replace(status, accumulators=sums)


def _with_stalls(sums: Accumulators, usd: Usd, seconds: Decimal, world: int) -> Accumulators:
    """Store the cost of all stalls, and their seconds in this world."""
    return replace(
        sums,
        checkpoint_usd=usd.as_stored,
        checkpoint_seconds=round(seconds, 12),
        checkpoint_world_number=world,
    )


SAVE_STALLS = Policy(count_saving, is_for_readers=True)
