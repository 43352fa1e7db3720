"""The use of the money: useful steps and their price on demand, steps done twice, stalls.

A step is useful once. Steps done again after a restart, and the time in which a world stood still
around a change, were paid for and bought nothing: that is lost work.
"""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from statistics import median

from spotrun.api.capacitypool import Capacity
from spotrun.money import forecast as forecasts
from spotrun.money.savings import lost_work, saved_usd
from spotrun.money.shares import share_of
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour, seconds_between
from spotrun.policies.cost.bill import bill, to_show
from spotrun.policies.cost.goodput.save_stalls import saving_seconds
from spotrun.policies.cost.transfer import with_transfer
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Accumulators, Cost
from spotrun.state.view import View, holds_back
from spotrun.state.world_members import last_members, last_progress, training, world_number
from spotrun.wire import MOST_STEPS, step_of

_MOST_MARKS = 16


def count_work(view: View, status: JobState) -> JobState:
    """Count the steps since the last pass as useful or as done twice."""
    sums, now = status.accumulators, status.progress
    if holds_back(status):
        return _pause(view, status)
    if not _is_priced(sums) or not training(status) or now.step is None:
        return status
    before, seconds = view.job.status.progress, step_seconds(view, status)
    if seconds is None:
        return status
    if sums.as_of is None:
        known = _counted_from(view, status, now.step, seconds)
        sums = replace(sums, useful_step=known)
        return _counted(view, status, _with_useful(sums, view, status, now.step, seconds), now.step)
    if before.step is None or now.step == before.step:
        return status
    redone, done = max(before.step - now.step, 0), max(now.step - before.step, 0)
    elapsed_seconds = max(seconds_between(sums.as_of, view.now), Decimal(0))
    sums = _with_useful(sums, view, status, now.step, seconds)
    sums = _with_lost(
        sums,
        view,
        status,
        redone=redone,
        idle_seconds=elapsed_seconds - done * seconds,
        seconds=seconds,
    )
    sums = with_transfer(sums, view, status, done, elapsed_seconds)
    return _note_lost_steps(_counted(view, status, sums, now.step), redone)


def with_work(cost: Cost, status: JobState, spent: Usd) -> Cost:
    """Show the money saved and lost, and the forecast of the job's whole cost."""
    sums = status.accumulators
    cost = _with_forecast(cost, status, spent)
    if sums.lost_work_usd is not None:
        cost = replace(cost, lost_work_usd=to_show(sums.lost_work_usd))
    if sums.on_demand_usd is None:
        return cost
    # Use the shown (rounded) sums, so that the three figures add up to the last digit.
    on_demand = to_show(sums.on_demand_usd)
    saved = saved_usd(on_demand, to_show(spent)).as_stored
    return replace(cost, on_demand_usd=on_demand, saved_usd=saved)


def _pause(view: View, status: JobState) -> JobState:
    """Count no stall while a job is held back; the last steps before that still count.

    All its steps count if the job was over before the operator looked a second time.
    """
    now, seconds = status.progress, step_seconds(view, status)
    sums = status.accumulators
    if now.step is not None and seconds and _may_count(status):
        known = _counted_from(view, status, now.step, seconds)
        counted = _with_useful(replace(sums, useful_step=known), view, status, now.step, seconds)
        if counted.useful_step != known:
            sums = counted
    if sums.as_of is not None:
        sums = replace(sums, as_of=None)
    if sums is status.accumulators:
        return status
    return replace(status, accumulators=sums)


def _may_count(status: JobState) -> bool:
    """Whether steps are counted already, or the workers that made them are still known."""
    sums = status.accumulators
    return sums.useful_step is not None or (_is_priced(sums) and bool(training(status)))


def _is_priced(sums: Accumulators) -> bool:
    return sums.usd is not None or bool(sums.rates)


def _counted_from(view: View, status: JobState, step: int, seconds: Decimal) -> int:
    """Return the step up to which all is counted; at first the one at which this job began.

    If some price was unknown, counting begins now: earlier steps have no cost to compare with.
    """
    known = status.accumulators.useful_step
    if known is not None:
        return known
    return first_step(view, status, step, seconds) if bill(view, status).is_complete else step


def _counted(view: View, status: JobState, sums: Accumulators, step: int) -> JobState:
    mark = forecasts.Mark(steps=step, usd=bill(view, status).usd.as_stored)
    sums = replace(
        sums,
        world_number=world_number(status),
        marks=(*sums.marks, mark)[-_MOST_MARKS:],
        as_of=view.now,
    )
    return replace(status, accumulators=sums)


def _with_lost(
    sums: Accumulators,
    view: View,
    status: JobState,
    *,
    redone: int,
    idle_seconds: Decimal,
    seconds: Decimal,
) -> Accumulators:
    """Add lost work: steps done again, and the time in which a change of world stopped training."""
    now, stall = bill(view, status), Decimal(0)
    if sums.world_number != world_number(status):
        # Stalls for saves in this world are counted apart.
        stall = max(idle_seconds - saving_seconds(view, status), Decimal(0))
    lost = lost_work(
        redone_steps=redone, step_seconds=seconds, stall_seconds=stall, rate=now.usd_per_hour
    )
    if not lost.usd:
        return sums
    known = sums.lost_work_usd or NO_USD
    # No more is lost than was paid; a correction of the cost does not make it lost again.
    new = max(min(lost.usd, now.usd - known), NO_USD)
    sums = replace(sums, lost_work_usd=(known + new).as_stored)
    if not lost.redone:
        return sums
    return replace(sums, redone_usd=((sums.redone_usd or NO_USD) + min(lost.redone, new)).as_stored)


def _with_useful(
    sums: Accumulators, view: View, status: JobState, step: int, seconds: Decimal
) -> Accumulators:
    """Add new steps; while their price on demand is unknown, they wait until it is known."""
    new = step - (sums.useful_step or 0)
    rate = _on_demand(view, status) if new > 0 else None
    if rate is None:
        return sums
    known = sums.on_demand_usd or NO_USD
    most = max(_most_useful(view, status, rate), known)
    usd = min(known + rate.over(new * seconds), most)
    return replace(sums, on_demand_usd=usd.as_stored, useful_step=step)


def _most_useful(view: View, status: JobState, rate: UsdPerHour) -> Usd:
    """Return twice the on-demand cost of the job at its largest size since its creation.

    The workers report their own steps; no job can have done more than that.
    """
    job = view.job
    size = Fraction(job.spec.workers.max, len(training(status)))
    age_seconds = max(seconds_between(job.created_at, view.now), Decimal(0))
    return (rate * size * 2).over(age_seconds)


def _on_demand(view: View, status: JobState) -> UsdPerHour | None:
    """Return the rate of all members on the cheapest on-demand nodes that fit; None: unknown."""
    total, members = NO_RATE, last_members(view, status)
    for worker in members:
        prices = [price for price in _offers(view, worker) if price is not None]
        if not prices:
            return None
        total += min(prices)
    return total if members else None


def _offers(view: View, worker: Worker) -> list[UsdPerHour | None]:
    """Return on-demand prices of the worker's own node and of pools with the same accelerator."""
    node, needs = worker.node, worker.pod.requests
    if node is None or node.allocatable is None:
        return []
    own = node.on_demand_usd_per_hour
    if own is None and node.capacity is Capacity.ON_DEMAND and node.prices.changes:
        own = node.prices.at(view.now)
    found = [own * share_of(needs, node.allocatable) if own is not None else None]
    pool = view.job.market.pool(node.pool)
    for other in view.job.market.pools:
        price, has = other.on_demand_usd_per_hour, other.allocatable
        if pool is None or price is None or has is None or other.accelerator != pool.accelerator:
            continue
        if needs.gpus <= has.gpus and needs.cpu <= has.cpu and needs.memory <= has.memory:
            found.append(UsdPerHour(price) * share_of(needs, has))
    return found


def first_step(view: View, status: JobState, step: int, seconds: Decimal) -> int:
    """Return the step after which steps were done for this job's money.

    The job pays neither for steps that its world restored, nor for more than it had time for.
    """
    world = status.world
    restored = step_of(world.restore) if world.restore is not None else 0
    if world.formed_at is None or restored > step or not seconds:
        return step
    most = int(max(seconds_between(world.formed_at, view.now), Decimal(0)) // seconds)
    return max(step - most, restored)


def step_seconds(view: View, status: JobState) -> Decimal | None:
    """Return the duration of a step, as members report it or reported it, or as measured before."""
    known = [report.step_seconds for report in last_progress(view, status) if report.step_seconds]
    if known:
        return Decimal(f"{median(known):.6f}")
    return status.pace.step_seconds


def _note_lost_steps(status: JobState, redone: int) -> JobState:
    if not redone:
        return status
    known = status.interruptions
    lost_steps = min(known.lost_steps + redone, MOST_STEPS)
    return replace(status, interruptions=replace(known, lost_steps=lost_steps))


def _with_forecast(cost: Cost, status: JobState, spent: Usd) -> Cost:
    progress, found = status.progress, None
    if progress.step is not None and progress.total_steps is not None:
        remaining = max(progress.total_steps - progress.step, 0)
        found = forecasts.forecast(spent, remaining, status.accumulators.marks)
    return replace(
        cost,
        forecast_usd=to_show(found.usd) if found is not None else None,
        forecast_low_usd=to_show(found.low) if found is not None else None,
        forecast_high_usd=to_show(found.high) if found is not None else None,
    )


STEPS = Policy(count_work, is_for_readers=True)
