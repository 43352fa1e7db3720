from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.cost import Accumulators, Cost
from spotrun.api.names import Phase
from spotrun.money.units import Usd
from spotrun.state.actions import Decision
from spotrun.wire import Ending, Progress
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, an_end
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import at_work
from tests.support.money.trained_steps import NODE, after, training_at


def lives(*steps: tuple[int, int, float]) -> Decision:
    """What is said after looks at (step, world number, seconds since the first)."""
    first, world_number, _ = steps[0]
    job = training_at(first, world_number)
    decision = job.decide()
    for step, present, seconds in steps[1:]:
        job = after(job, decision)
        if present != world_number:
            job = job.with_world("0-1", present, store="x:1")
            world_number = present
        moved = training_at(step, present, job)
        decision = moved.decide(NOW + timedelta(seconds=seconds))
    return decision


def cost(decision: Decision) -> Cost:
    return cost_of(decision.status)


def sums(decision: Decision) -> Accumulators:
    return sums_of(decision.status)


def test_useful_steps_are_compared_with_their_price_on_demand() -> None:
    decision = lives((100, 1, 0), (136, 1, 360))
    assert cost(decision).on_demand_usd == "0.6"  # 360 s at $6/h
    assert cost(decision).saved_usd == "-1.6"  # $2.20 were paid: an hour went before that
    assert cost(decision).lost_work_usd is None


@pytest.mark.parametrize(
    ("step", "restore", "usd"),
    [
        pytest.param(36, None, "0.6", id="from its beginning"),
        pytest.param(136, "step-100.g0", "0.6", id="from what its world restored"),
        pytest.param(9_000, None, "0.6", id="as many as it can have done, of a state of its own"),
        pytest.param(50, "step-100.g0", None, id="none, where that checkpoint was damaged"),
    ],
)
def test_the_steps_before_the_first_report_count_if_the_job_has_done_them(
    step: int, restore: str | None, usd: str | None
) -> None:
    started = a_job(2).training(0, 1)
    started = started.with_world("0-1", restore=restore, store="x:1", formed=365.0)
    decision = training_at(step, job=started).decide()
    assert (sums(decision).on_demand_usd, sums(decision).useful_step) == (usd, step)


def test_the_steps_that_are_told_with_the_end_count_as_well() -> None:
    job = training_at(100)
    job = after(job, job.decide())
    reported = Progress(1, 136, total=136, samples=136, step_seconds=10.0)
    ended = {"ready": True, "arrived": 1, "progress": reported, "completed": True}
    end, later = an_end(Ending.COMPLETED), NOW + timedelta(seconds=360)
    last = at_work(job, 0, 1, node=NODE, **ended, **end, ended_at=later).decide(later)
    assert last.status.phase is Phase.SUCCEEDED
    assert sums(last).on_demand_usd == "0.6"


def short_training(first: Progress) -> JobBuilder:
    """54 s before its end, with a place for checkpoints or none, and nobody looks in between."""
    started = a_job(2).training(0, 1).with_world("0-1", store="x:1", formed=4.0)
    job = at_work(started, 0, 1, ready=True, arrived=1, progress=first, node=NODE)
    return after(job, job.decide())


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(Progress(1, 0, 5), id="nothing is done at the only look before"),
        pytest.param(Progress(1, 1, 5), id="a step is done that nobody has timed"),
    ],
)
def test_of_a_training_that_is_over_before_a_second_look_is_told_what_it_saved(
    first: Progress,
) -> None:
    job, later = short_training(first), NOW + timedelta(seconds=54)
    reported = Progress(1, 5, total=5, samples=5, step_seconds=10.0)
    ended = {"ready": True, "arrived": 1, "progress": reported, "completed": True}
    end = an_end(Ending.COMPLETED)
    last = at_work(job, 0, 1, node=NODE, **ended, **end, ended_at=later).decide(later)
    assert last.status.phase is Phase.SUCCEEDED
    assert cost(last).on_demand_usd == "0.0833"  # 50 s at $6 an hour
    assert cost(last).saved_usd is not None
    assert cost(last).goodput is not None
    again = after(job, last).decide(later + timedelta(seconds=60))
    assert sums(again).on_demand_usd == sums(last).on_demand_usd, "once"


def test_of_a_training_that_its_user_suspends_as_soon_the_same_is_told() -> None:
    job, later = short_training(Progress(1, 0, 50)), NOW + timedelta(seconds=54)
    reported = Progress(1, 5, total=50, samples=5, step_seconds=10.0)
    held = at_work(job.with_spec(2, suspend=True), 0, 1, ready=True, arrived=1, progress=reported)
    held = at_work(held, 0, 1, ready=True, arrived=1, progress=reported, node=NODE)
    assert cost(held.decide(later)).on_demand_usd == "0.0833"


def test_steps_that_are_done_again_are_lost_and_useful_only_once() -> None:
    decision = lives((100, 1, 0), (136, 1, 360), (100, 2, 360), (136, 2, 720))
    assert sums(decision).on_demand_usd == "0.6"
    assert sums(decision).lost_work_usd == "0.2"  # 36 steps of 10 s at $2/h
    assert decision.status.interruptions.lost_steps == 36


def test_steps_that_are_caught_up_within_moments_have_been_done_again_all_the_same() -> None:
    job = training_at(100)
    job = training_at(136, job=after(job, job.decide()))
    job = after(job, job.decide(NOW + timedelta(seconds=360)))
    again = training_at(100, 2, job.with_world("0-1", 2, store="x:1"))
    again = again.with_facts(written_seconds=0.5)  # as the world was
    seen = again.decide(NOW + timedelta(seconds=365))
    caught_up = training_at(140, 2, after(again, seen)).decide(NOW + timedelta(seconds=366))
    interruptions, waste = caught_up.status.interruptions, cost(caught_up).waste
    assert waste is not None
    assert (interruptions.lost_steps, waste.redone_usd) == (36, "0.2")  # 360 s at $2/h


def test_the_standstill_around_a_change_of_worlds_is_lost() -> None:
    calm = lives((100, 1, 0), (101, 1, 100))
    assert sums(calm).lost_work_usd is None
    changed = lives((100, 1, 0), (101, 2, 100))
    assert sums(changed).lost_work_usd == "0.05"  # 90 s at $2/h


def test_what_was_lost_does_not_fall_with_a_cost_that_was_corrected() -> None:
    job = training_at(100)
    job = after(job, job.decide())
    known = job.status.accumulators
    corrected = replace(known, lost_work_usd=Usd(5), redone_usd=Usd(1))
    job = replace(job, status=replace(job.status, accumulators=corrected))
    changed = training_at(60, 2, job.with_world("0-1", 2, store="x:1"))
    found = sums(changed.decide(NOW + timedelta(seconds=100)))
    assert (found.lost_work_usd, found.redone_usd) == ("5", "1")


def test_the_time_in_which_a_job_is_held_back_is_no_standstill() -> None:
    job = training_at(100)
    job = after(job, job.decide())
    held = replace(job, spec=job.spec.model_copy(update={"suspend": True}))
    paused = after(held, held.decide())
    gone = paused.without(0).without(1)
    gone = after(gone, gone.decide(NOW + timedelta(hours=5)))
    resumed = replace(gone, spec=job.spec).with_world("2-3", 3, store="x:1")
    trains = {
        "node": NODE,
        "ready": True,
        "arrived": 3,
        "progress": Progress(3, 110, step_seconds=10.0),
    }
    resumed = at_work(resumed, 2, 3, **trains)  # type: ignore[arg-type]
    later = resumed.decide(NOW + timedelta(hours=5, seconds=10))
    assert sums(later).lost_work_usd is None


def test_without_a_price_on_demand_nothing_is_compared() -> None:
    spot = replace(NODE, on_demand_usd_per_hour=None, capacity=Capacity.SPOT)
    job = training_at(100, node=spot)
    moved = training_at(136, 1, after(job, job.decide()), node=spot)
    decision = moved.decide(NOW + timedelta(seconds=360))
    assert (cost(decision).on_demand_usd, cost(decision).saved_usd) == (None, None)


def test_the_forecast_goes_on_as_of_late() -> None:
    decision = lives((100, 1, 0), (136, 1, 360))
    # 36 steps for $0.20: 864 more cost $4.80, besides the $2.20 that are spent.
    assert cost(decision).forecast_usd == "7"


NIGHT = timedelta(hours=20)
CLOSED = {"windows": [{"from": "08:00", "to": "12:06", "timeZone": "UTC"}]}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param({"suspend": True}, id="suspended"),
        pytest.param({"schedule": CLOSED}, id="outside of its windows"),
    ],
)
def test_a_night_in_which_a_job_is_held_back_makes_nothing_dearer(held: dict[str, Any]) -> None:
    evening, morning = NOW + timedelta(seconds=360), NOW + NIGHT
    job = training_at(100)
    moved = training_at(136, 1, after(job, job.decide()))
    before = moved.decide(evening)
    night = after(moved.with_spec(2, checkpoint=ON_CLAIM, **held), before)
    night = after(night, night.decide(evening))
    assert night.status.suspended_by
    left = an_end(Ending.DEPARTED)
    night = at_work(night, 0, 1, node=NODE, **left, ended_at=evening)
    for hours in (0, 1, 10):
        night = after(night, night.decide(evening + timedelta(hours=hours)))
    assert str(night.status.settled) == "0-1"
    rested = night.without(0).without(1).with_spec(2).with_world("2-3", 2, store="x:1")
    for step, seconds in ((136, 0), (172, 360)):
        reported = Progress(2, step, total=1000, samples=step, step_seconds=10.0)
        trains = {"ready": True, "arrived": 2, "progress": reported, "scheduled_at": morning}
        rested = at_work(rested, 2, 3, node=NODE, **trains)
        decision = rested.decide(morning + timedelta(seconds=seconds))
        rested = after(rested, decision)
    assert (cost(before).usd, cost(before).forecast_usd) == ("2.2", "7")
    assert (cost(decision).usd, cost(decision).forecast_usd) == ("2.4", "7")
