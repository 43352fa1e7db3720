"""What the money bought: useful steps and their price on demand, steps done twice, stalls.

A step is useful once. What was done again after a restart, and the time in which a world stood
still around a change, was paid for and bought nothing: that is lost work.
"""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from statistics import median

from spotrun.api.capacitypool import Capacity
from spotrun.api.cost import Accumulators, Mark
from spotrun.api.field_types.text_values import Time
from spotrun.api.status import Interruptions
from spotrun.money import forecast as forecasts
from spotrun.money.savings import lost_work, saved_usd
from spotrun.money.shares import share_of
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour, seconds_between
from spotrun.policies.cost.bill import as_shown, bill, to_show
from spotrun.policies.cost.goodput.save_stalls import saving_seconds
from spotrun.policies.cost.transfer import transferred
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View, holds_back
from spotrun.state.world_members import generation, last_crew, last_told, training
from spotrun.wire import MOST_STEPS, step_of

_MOST_MARKS = 16
_NO_FORECAST = dict.fromkeys(("forecast_usd", "forecast_low_usd", "forecast_high_usd"))


def count_work(view: View, status: JobState) -> JobState:
    """Add the steps since the last time to what they were: useful, or done twice."""
    sums, now = status.accumulators or Accumulators(), status.progress
    if holds_back(status):
        return _pause(view, status, sums)
    is_priced = sums.usd is not None or bool(sums.rates)
    if not is_priced or not training(status) or now is None or now.step is None:
        return status
    before, seconds = view.job.status.progress, step_seconds(view, status)
    if seconds is None:
        return status
    if sums.as_of is None:
        known = _counted_from(view, status, now.step, seconds)
        update = {"useful_step": known, **_useful(view, status, known, now.step, seconds)}
        return _counted(view, status, sums, update)
    if before is None or before.step is None or now.step == before.step:
        return status
    redone, done = max(before.step - now.step, 0), max(now.step - before.step, 0)
    elapsed_seconds = max(seconds_between(sums.as_of.datetime, view.now), Decimal(0))
    update = _useful(view, status, sums.useful_step or 0, now.step, seconds)
    update |= _lost(view, status, redone, elapsed_seconds - done * seconds, seconds)
    update |= transferred(view, status, done, elapsed_seconds)
    return _note_lost_steps(_counted(view, status, sums, update), redone)


def work_shown(status: JobState, spent: Usd) -> dict[str, object]:
    """What of a job's cost says what was saved and lost, and what the whole will have cost."""
    sums = status.accumulators or Accumulators()
    shown = dict(_forecast(status, sums, spent))
    if sums.lost_work_usd is not None:
        shown["lost_work_usd"] = to_show(Usd.of(sums.lost_work_usd))
    if sums.on_demand_usd is not None:
        on_demand = Usd.of(sums.on_demand_usd)
        # Of what is shown, so that the three figures add up to the last digit.
        shown["on_demand_usd"] = to_show(on_demand)
        shown["saved_usd"] = saved_usd(as_shown(on_demand), as_shown(spent)).signed_amount
    return shown


def _pause(view: View, status: JobState, sums: Accumulators) -> JobState:
    """The time in which a job is held back is no stall; the last steps before it still count.

    So do all of them where the job was over before anybody looked a second time.
    """
    now, seconds = status.progress, step_seconds(view, status)
    update: dict[str, object] = {"as_of": None} if sums.as_of is not None else {}
    if now is not None and now.step is not None and seconds and _may_count(status, sums):
        known = _counted_from(view, status, now.step, seconds)
        update |= _useful(view, status, known, now.step, seconds)
    if not update:
        return status
    return replace(status, accumulators=sums.model_copy(update=update))


def _may_count(status: JobState, sums: Accumulators) -> bool:
    """Whether steps are counted already, or those who have made them are still known."""
    is_priced = sums.usd is not None or bool(sums.rates)
    return sums.useful_step is not None or (is_priced and bool(training(status)))


def _counted_from(view: View, status: JobState, step: int, seconds: Decimal) -> int:
    """The step up to which all is counted; at first the one with which this job began.

    What was paid before at unknown prices is compared with nothing.
    """
    sums = status.accumulators
    if sums is not None and sums.useful_step is not None:
        return sums.useful_step
    return first_step(view, status, step, seconds) if bill(view, status).is_complete else step


def _counted(
    view: View, status: JobState, sums: Accumulators, update: dict[str, object]
) -> JobState:
    progress = status.progress
    marks = sums.marks or ()
    if progress is not None and progress.step is not None:
        marks = (*marks, Mark(step=progress.step, usd=bill(view, status).usd.amount))
    update |= {
        "generation": generation(status),
        "marks": marks[-_MOST_MARKS:],
        "as_of": Time.of(view.now),
    }
    return replace(status, accumulators=sums.model_copy(update=update))


def _lost(
    view: View, status: JobState, redone: int, idle_seconds: Decimal, seconds: Decimal
) -> dict[str, object]:
    """A world stands still around its changes; otherwise steps take what they take."""
    sums, now, stall = status.accumulators or Accumulators(), bill(view, status), Decimal(0)
    if sums.generation != generation(status):
        # What saving has held up in this world already has a name of its own.
        stall = max(idle_seconds - saving_seconds(view, status), Decimal(0))
    lost = lost_work(
        redone_steps=redone, step_seconds=seconds, stall_seconds=stall, rate=now.usd_per_hour
    )
    if not lost.usd:
        return {}
    known = Usd.of(sums.lost_work_usd)
    # No more is lost than was paid; what a correction took back was not lost again.
    new = max(min(lost.usd, now.usd - known), NO_USD)
    update: dict[str, object] = {"lost_work_usd": (known + new).amount}
    if lost.redone:
        update["redone_usd"] = (Usd.of(sums.redone_usd) + min(lost.redone, new)).amount
    return update


def _useful(
    view: View, status: JobState, known_step: int, step: int, seconds: Decimal
) -> dict[str, object]:
    """Steps whose price on demand is unknown wait until somebody knows it."""
    sums = status.accumulators or Accumulators()
    new = step - known_step
    rate = _on_demand(view, status) if new > 0 else None
    if rate is None:
        return {}
    known = Usd.of(sums.on_demand_usd)
    most = max(_most_useful(view, status, rate), known)
    usd = min(known + rate.over(new * seconds), most)
    return {"on_demand_usd": usd.amount, "useful_step": step}


def _most_useful(view: View, status: JobState, rate: UsdPerHour) -> Usd:
    """Twice what the job would have cost on demand at its largest size since it was made.

    Steps are counted by those who do them; nobody has done more than that.
    """
    job = view.job
    size = Fraction(job.spec.workers.max, len(training(status)))
    age_seconds = max(seconds_between(job.created_at, view.now), Decimal(0))
    return (rate * size * 2).over(age_seconds)


def _on_demand(view: View, status: JobState) -> UsdPerHour | None:
    """What those who train would cost on the cheapest on-demand nodes that fit; None: unknown."""
    total, crew = NO_RATE, last_crew(view, status)
    for worker in crew:
        prices = [price for price in _offers(view, worker) if price is not None]
        if not prices:
            return None
        total += min(prices)
    return total if crew else None


def _offers(view: View, worker: Worker) -> list[UsdPerHour | None]:
    """The like of its own node, and pools of the same accelerator: others have other speeds."""
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
    """From where on steps were done for this job's money.

    Those are no others than its world did not restore, and no more than it can have done.
    """
    world = status.world
    restored = step_of(world.restore) if world.restore is not None else 0
    if world.formed_at is None or restored > step or not seconds:
        return step
    most = int(max(seconds_between(world.formed_at, view.now), Decimal(0)) // seconds)
    return max(step - most, restored)


def step_seconds(view: View, status: JobState) -> Decimal | None:
    """How long a step takes, as those say who train or have done so, or as measured before."""
    known = [told.step_seconds for told in last_told(view, status) if told.step_seconds]
    if known:
        return Decimal(f"{median(known):.6f}")
    pace = status.pace
    return pace.step_seconds.decimal if pace is not None and pace.step_seconds else None


def _note_lost_steps(status: JobState, redone: int) -> JobState:
    if not redone:
        return status
    known = status.interruptions or Interruptions()
    lost = min((known.lost_steps or 0) + redone, MOST_STEPS)
    counted = known.model_copy(update={"lost_steps": lost})
    return replace(status, interruptions=counted)


def _forecast(status: JobState, sums: Accumulators, spent: Usd) -> dict[str, object]:
    progress = status.progress
    if progress is None or progress.step is None or progress.total_steps is None:
        return _NO_FORECAST
    marks = [forecasts.Mark(mark.step, Usd.of(mark.usd)) for mark in sums.marks or ()]
    remaining = max(progress.total_steps - progress.step, 0)
    found = forecasts.forecast(spent, remaining, marks)
    if found is None:
        return _NO_FORECAST
    shown = (to_show(usd) for usd in (found.usd, found.low, found.high))
    return dict(zip(_NO_FORECAST, shown, strict=True))
