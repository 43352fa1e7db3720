"""Which size a job gets: lives of jobs whose steps follow a curve, and single choices."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Cap, Gauge, Pause
from spotrun.policies.scaling.size_decision import choose_size
from spotrun.state.stored.scaling import NO_SCALING
from tests.support.jobs.builders import NOW
from tests.support.jobs.scaling_lives import (
    Curve,
    Life,
    amdahl,
    communicating,
    facts_at,
    linear,
    starving,
    step_at,
    stored,
)

TO_16 = range(1, 17)


def lived(curve: Curve, sizes: Sequence[int], size: int, **facts: Any) -> Life:
    life = Life(curve, sizes, size, facts)
    life.live()
    return life


def settled(life: Life) -> str:
    """Why it stays, once nothing changes any more."""
    before = life.size
    reason = life.live(1).reason.value
    assert life.size == before
    return reason


@pytest.mark.parametrize(
    ("curve", "start", "facts", "had", "reason"),
    [
        pytest.param(linear, 4, {}, [8, 16], "AtLargestSize", id="linear"),
        pytest.param(communicating, 2, {}, [8], "WithinTolerance", id="until utilization is met"),
        pytest.param(communicating, 16, {}, [12], "WithinTolerance", id="too many from the start"),
        pytest.param(starving, 4, {}, [1], "AtSmallestSize", id="waits for data"),
        pytest.param(linear, 4, {"microbatches": 8}, [8], "AtLargestSize", id="few microbatches"),
        pytest.param(linear, 4, {"hour_worth_usd": 0.0}, [1], "BestSize", id="time is worth none"),
        pytest.param(
            amdahl,
            1,
            {"hour_worth_usd": 5.0, "usd_per_hour": 1.0},
            [4, 8],
            "BestSize",
            id="what nobody could see is found out on the way",
        ),
        pytest.param(
            communicating,
            4,
            {"hour_worth_usd": 5.0, "usd_per_hour": 1.0},
            [9],
            "BestSize",
            id="where the work costs least",
        ),
    ],
)
def test_a_job_comes_to_its_size_and_stays_there(
    curve: Curve, start: int, facts: dict[str, Any], had: list[int], reason: str
) -> None:
    life = lived(curve, TO_16, start, **facts)
    assert (life.had, settled(life)) == (had, reason)


def test_a_growth_that_brings_too_little_is_taken_back_and_not_tried_again_for_hours() -> None:
    life = Life(linear, (4, 8), 4)
    life.live(8)
    assert (life.had, life.reasons) == ([8], ["UtilizationHigh"])
    life.curve = lambda n: (2.5, 0.0, 0.0)  # it was a mistake: eight are as slow as four
    life.live(30)
    assert (life.had, life.reasons[-1]) == ([8, 4], "EfficiencyLow")
    assert settled(life) == "TriedBefore"
    life.live(5 * 60)
    assert life.had == [8, 4]


def test_a_job_that_changes_is_measured_anew() -> None:
    life = lived(communicating, (1, 2, 4, 8, 16), 4)
    assert life.had == [8]
    life.curve = linear
    life.live()
    assert life.had == [8, 16]
    life.curve = starving
    life.live()
    assert life.had == [8, 16, 1]


def test_what_other_sizes_brought_is_believed_as_long_as_this_one_brings_the_same() -> None:
    life = lived(amdahl, TO_16, 4, hour_worth_usd=5.0, usd_per_hour=1.0)
    assert life.had == [8]
    memory = life.memory
    for hours in range(1, 20):
        facts = facts_at(amdahl, 8, TO_16, hour_worth_usd=5.0, usd_per_hour=1.0)
        memory = choose_size(facts, memory, life.now + timedelta(hours=hours)).memory
    assert [one.workers for one in memory.measured] == [4, 8]
    away = choose_size(facts, memory, life.now + timedelta(hours=26)).memory
    assert [one.workers for one in away.measured or ()] == [8]


def test_what_a_step_goes_into_is_renewed_though_it_takes_as_long() -> None:
    """The first windows after a change are of both loads."""
    mixed, whole = facts_at(linear, 4, TO_16), facts_at(communicating, 4, TO_16)
    assert mixed.step is not None
    assert whole.step is not None
    first = replace(mixed, step=replace(mixed.step, seconds=2.5))
    then = replace(whole, step=replace(whole.step, seconds=2.5))
    memory = choose_size(then, choose_size(first, NO_SCALING, NOW).memory, NOW).memory
    [measured] = memory.measured
    assert float(measured.compute or 0) == pytest.approx(whole.step.compute, abs=1e-4)


def test_more_and_fewer_have_to_be_justified_for_a_while() -> None:
    first = choose_size(facts_at(linear, 4, TO_16), NO_SCALING, NOW)
    assert (first.size, first.reason) == (4, Pause.STABILIZING)
    soon = choose_size(facts_at(linear, 4, TO_16), first.memory, NOW + timedelta(seconds=119))
    assert (soon.size, round(soon.wake_after_seconds or 0)) == (4, 1)
    then = choose_size(facts_at(linear, 4, TO_16), soon.memory, NOW + timedelta(seconds=120))
    assert (then.size, then.reason) == (8, ScalingReason.UTILIZATION_HIGH)


@pytest.mark.parametrize(
    ("reason", "patience_seconds"),
    [
        pytest.param("PaysOff", 120, id="nothing else was concluded since the growth"),
        pytest.param("BestSize", 600, id="it was right for a while"),
    ],
)
def test_a_growth_that_never_was_right_is_taken_back_as_soon_as_it_was_made(
    reason: str, patience_seconds: int
) -> None:
    worth: dict[str, Any] = {"hour_worth_usd": 8.0, "usd_per_hour": 1.0, "min_efficiency": 0.1}
    life = Life(stored, TO_16, 4, worth)
    while life.size == 4:
        life.live(1)
    memory = replace(life.memory, reason=reason)
    seen = choose_size(facts_at(stored, 8, TO_16, **worth), memory, life.now)
    assert (seen.reason, seen.wake_after_seconds) == (Pause.STABILIZING, patience_seconds)
    then = life.now + timedelta(seconds=patience_seconds)
    taken_back = choose_size(facts_at(stored, 8, TO_16, **worth), seen.memory, then)
    assert (taken_back.size, taken_back.reason) == (5, ScalingReason.PAYS_OFF)


def test_a_break_begins_the_wait_anew() -> None:
    memory = choose_size(facts_at(linear, 4, TO_16), NO_SCALING, NOW).memory
    calm = replace(
        facts_at(linear, 4, TO_16), gauges=(Gauge(TargetResource.GPU, 0.7, reported=(0.7,)),)
    )
    memory = choose_size(calm, memory, NOW + timedelta(seconds=60)).memory
    assert memory.more_since is None
    again = choose_size(facts_at(linear, 4, TO_16), memory, NOW + timedelta(seconds=130))
    assert again.size == 4


def test_an_operator_that_has_to_measure_first_forgets_no_patience() -> None:
    memory = choose_size(facts_at(linear, 4, TO_16), NO_SCALING, NOW).memory
    unheard = replace(facts_at(linear, 4, TO_16), step=None)
    after = choose_size(unheard, memory, NOW + timedelta(seconds=60))
    assert (after.reason, after.memory.more_since) == (Pause.MEASURING, memory.more_since)


@pytest.mark.parametrize(
    ("limit", "size", "reason"),
    [
        (Cap(8, ScalingReason.BUDGET_LIMIT), 8, ScalingReason.UTILIZATION_HIGH),
        (Cap(4, ScalingReason.BUDGET_LIMIT), 4, ScalingReason.BUDGET_LIMIT),
        (Cap(3, ScalingReason.NO_CAPACITY), 4, ScalingReason.NO_CAPACITY),
    ],
)
def test_limits_are_not_asked_beyond_and_take_nothing_away(
    limit: Cap, size: int, reason: ScalingReason
) -> None:
    facts = facts_at(linear, 4, TO_16, caps=(limit,), up_after_seconds=0.0)
    choice = choose_size(facts, NO_SCALING, NOW)
    assert (choice.size, choice.reason) == (size, reason)


def test_what_cannot_be_had_is_asked_for_again_once_it_can() -> None:
    life = Life(linear, TO_16, 4, {"caps": (Cap(4, ScalingReason.NO_CAPACITY),)})
    life.live(60)
    assert life.had == []
    life.facts["caps"] = ()
    life.live(60)
    assert life.had == [8, 16]


def test_a_job_that_runs_with_what_there_is_is_not_kept_waiting() -> None:
    """Eight are wanted, four can be had; they starve, so not even these are needed."""
    capped = facts_at(
        starving,
        4,
        TO_16,
        wanted=8,
        caps=(Cap(4, ScalingReason.NO_CAPACITY),),
        down_after_seconds=0.0,
    )
    assert choose_size(capped, NO_SCALING, NOW).size < 4
    waiting = replace(capped, caps=())
    assert choose_size(waiting, NO_SCALING, NOW).reason is Pause.RESIZING


@pytest.mark.parametrize(
    ("needed", "size"),
    [
        pytest.param(0.9, 4, id="in time as it is"),
        pytest.param(1.5, 6, id="the smallest that is fast enough"),
        pytest.param(100.0, 16, id="as fast as can be"),
    ],
)
def test_a_deadline_may_ask_for_more_than_utilization(needed: float, size: int) -> None:
    """`needed`: times the throughput of now. The job is as busy as it should be."""
    calm = (Gauge(TargetResource.GPU, 0.7, reported=(0.7,) * 4),)
    rate = needed * step_at(linear, 4).samples_per_second
    facts = facts_at(
        linear, 4, TO_16, gauges=calm, needed_samples_per_second=rate, up_after_seconds=0.0
    )
    assert choose_size(facts, NO_SCALING, NOW).size == size


def test_no_worker_is_given_back_that_the_deadline_needs() -> None:
    def half_idle(size: int) -> tuple[float, float, float]:
        return 10 / size, 0.0, 2.5

    facts = facts_at(half_idle, 4, TO_16, down_after_seconds=0.0)
    assert choose_size(facts, NO_SCALING, NOW).size == 2
    rate = step_at(half_idle, 4).samples_per_second
    kept = choose_size(replace(facts, needed_samples_per_second=rate), NO_SCALING, NOW)
    assert (kept.size, kept.reason) == (4, ScalingReason.NEEDED_FOR_DEADLINE)
    barely = 1.05 * step_at(half_idle, 2).samples_per_second
    spare = choose_size(replace(facts, needed_samples_per_second=barely), NO_SCALING, NOW)
    assert (spare.size, spare.reason) == (3, ScalingReason.NEEDED_FOR_DEADLINE)


def test_the_first_size_is_asked_for_before_anything_is_measured() -> None:
    made = facts_at(linear, 1, TO_16, step=None, running=0)
    choice = choose_size(made, NO_SCALING, NOW)
    assert (choice.size, choice.reason) == (4, ScalingReason.INITIAL_SIZE)
    again = choose_size(replace(made, wanted=4), choice.memory, NOW)
    assert (again.size, again.reason) == (4, Pause.NOT_TRAINING)
