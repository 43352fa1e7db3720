"""How much of the money bought new steps, and what they cost."""

from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.names import Phase
from spotrun.state.actions import Decision
from spotrun.wire import Ending, Progress
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago, an_end, later
from tests.support.jobs.stored_state import cost_of
from tests.support.money.priced_nodes import a_node, at_work

# Two workers at $1 an hour each since an hour ago; a step takes 10 s, and has 32 samples.
STEP_SECONDS, SAMPLES = 10.0, 32


def at_step(
    step: int, job: JobBuilder | None = None, samples: int = SAMPLES, **told_too: Any
) -> JobBuilder:
    reported = Progress(
        1, step, total=1000, samples=step * samples, step_seconds=STEP_SECONDS, **told_too
    )
    job = job or a_job(2).training(0, 1).with_world("0,1", formed=2000.0, store="x:1")
    trains = at_work(job, 0, 1, node=a_node(), ready=True, arrived=1, progress=reported)
    return trains.with_facts(written_seconds=91.0)


def lives(*steps: tuple[int, float]) -> Decision:
    """What is said after looks at (step, seconds since the first)."""
    decision = at_step(steps[0][0]).decide()
    for step, seconds in steps[1:]:
        job = at_step(step).with_state(decision.status)
        decision = at_step(step, job).decide(later(seconds))
    return decision


def shown(decision: Decision) -> tuple[str | None, str | None, str | None]:
    cost = cost_of(decision.status)
    return cost.goodput, cost.usd_per_step, cost.usd_per_million_samples


def test_steps_that_were_done_before_the_first_look_count_as_far_as_there_was_time() -> None:
    # 2,000 s at $2/h are $1.11, and $2 were paid.
    assert shown(lives((200, 0))) == ("55%", "0.01", "312.5")
    # Of 5,000 steps 200 can have been done here: the others were restored.
    assert shown(lives((5_000, 0))) == ("55%", "0.01", "312.5")


def test_new_steps_count_and_what_comes_between_does_not() -> None:
    # $2.80 were paid by then, $1.11 and $0.60 of it for steps.
    assert shown(lives((200, 0), (308, 1440))) == ("61%", "0.00909091", "284.09090909")


def test_the_steps_that_are_told_with_the_end_count_as_well() -> None:
    before = at_step(200).decide()
    reported = Progress(1, 308, total=308, samples=308 * SAMPLES, step_seconds=STEP_SECONDS)
    job, end = at_step(200).with_state(before.status), later(1440)
    ended = {"ready": True, "arrived": 1, "progress": reported, "completed": True}
    gone = at_work(job, 0, 1, node=a_node(), **ended, **an_end(Ending.COMPLETED), ended_at=end)
    last = gone.decide(end)
    assert last.status.phase is Phase.SUCCEEDED
    # As if they had been told a moment before it.
    assert shown(last) == ("61%", "0.00909091", "284.09090909")
    assert shown(last) == shown(lives((200, 0), (308, 1440)))


def test_steps_that_are_done_again_count_once() -> None:
    once = lives((200, 0), (308, 1080)).status.accumulators
    lost = lives((200, 0), (308, 1080), (200, 1090)).status.accumulators
    assert once is not None
    assert lost is not None
    assert (lost.peak_step, lost.useful_usd) == (308, once.useful_usd)
    again = lives((200, 0), (308, 1080), (200, 1090), (308, 2170))
    # $3.21 were paid by then, $1.71 of it for 308 steps.
    assert shown(again)[:2] == ("53%", "0.01040765")


def test_a_script_that_tells_of_no_samples_has_no_price_for_them() -> None:
    assert shown(at_step(200, samples=0).decide())[2] is None


@pytest.mark.parametrize(
    ("reported", "usd"),
    [
        # $2 for 200 steps of 32 samples.
        pytest.param({"epoch_samples": 1_600}, "0.5", id="many epochs"),
        pytest.param({"epoch_samples": 64_000}, "20", id="a part of one"),
        pytest.param({"epoch_samples": 0}, None, id="an empty dataset"),
        pytest.param({"epoch_samples": 1_600, "samples": 0}, None, id="nobody counts samples"),
        pytest.param({}, None, id="a dataset without a length"),
    ],
)
def test_what_an_epoch_costs(reported: dict[str, int], usd: str | None) -> None:
    cost = cost_of(at_step(200, **reported).decide().status)  # type: ignore[arg-type]
    assert cost.usd_per_epoch == usd


def test_nobody_is_believed_to_have_done_more_than_was_paid_for() -> None:
    decision = lives((200, 0), (10**9, 3600))
    assert shown(decision)[0] == "100%"


@pytest.mark.parametrize("spent_hours", [1, 10])
def test_the_forecast_has_a_range(spent_hours: int) -> None:
    job = at_step(100)
    looks = ((100, 0.0), (136, 360.0), (154, 3600.0 * spent_hours))
    decision = job.decide(NOW)
    for step, seconds in looks[1:]:
        moved = at_step(step, job.with_state(decision.status))
        decision = moved.decide(NOW + timedelta(seconds=seconds))
    cost = cost_of(decision.status)
    shown = (cost.forecast_low_usd, cost.forecast_usd, cost.forecast_high_usd)
    low, middle, high = (one.decimal for one in shown if one is not None)
    assert low < middle < high
    # The cheapest of late: 36 steps for $0.20.
    assert cost.usd is not None
    paid = cost.usd.decimal
    assert float(low) == pytest.approx(float(paid) + 846 * 0.2 / 36, abs=0.01)


def test_no_steps_no_figures() -> None:
    job = at_work(a_job(2), 0, 1, created_at=ago(7200))
    assert shown(job.decide()) == (None, None, None)
