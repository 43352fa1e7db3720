"""What it costs that training stands still to save: by the time that trainers measure there.

They tell of the world that they are in, from its beginning, so it does not matter how seldom
somebody looks.
"""

from dataclasses import replace
from decimal import Decimal
from statistics import median

from spotrun.api.cost import Accumulators
from spotrun.api.field_types.amounts import Amount
from spotrun.money.units import NO_USD, Usd
from spotrun.policies.cost.bill import bill
from spotrun.state.job_state import JobState
from spotrun.state.view import View
from spotrun.state.world_members import generation, progress_told


def saving_seconds(view: View, status: JobState) -> Decimal:
    """How long most of those who train have stood still to save, in the world that trains."""
    present = generation(status)
    told = [one for one in progress_told(view, status) if one.generation == present]
    known = [one.checkpoint_seconds for one in told if one.checkpoint_seconds is not None]
    return Decimal(f"{median(known):.6f}") if known else Decimal(0)


def count_saving(view: View, status: JobState) -> JobState:
    """Add what that has cost since the last time."""
    sums, present = status.accumulators or Accumulators(), generation(status)
    known = sums.checkpoint_seconds if sums.checkpoint_generation == present else None
    counted, told = known.decimal if known is not None else Decimal(0), saving_seconds(view, status)
    if told <= counted:
        return status
    now, before = bill(view, status), Usd.of(sums.checkpoint_usd)
    new = now.usd_per_hour.over(told - counted)
    # The time is told by those who spend it: it costs no more than what nothing else explains, and
    # what is beyond that has to wait until more was paid.
    left = now.usd - Usd.of(sums.useful_usd) - Usd.of(sums.lost_work_usd) - before
    if left <= NO_USD:
        return status
    if new > left:
        new, told = left, counted + (now.usd_per_hour.seconds_for(left) or Decimal(0))
    update = {
        "checkpoint_usd": (before + new).amount,
        "checkpoint_seconds": Amount.of(told),
        "checkpoint_generation": present,
    }
    return replace(status, accumulators=sums.model_copy(update=update))
