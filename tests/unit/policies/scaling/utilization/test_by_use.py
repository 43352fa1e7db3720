"""Sizes of jobs whose scripts tell nothing of their steps: by what their workers use."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Cap, Gauge, Pause, SizingFacts
from spotrun.policies.scaling.size_decision import choose_size
from spotrun.policies.scaling.utilization.by_use import by_use
from spotrun.state.stored.scaling import NO_SCALING, Measured, ScalingState
from tests.support.jobs.builders import NOW

TO_16 = tuple(range(1, 17))


def a_gauge(*reported: float, silent: int = 0) -> Gauge:
    return Gauge(TargetResource.CPU, 0.7, reported=reported, silent=silent)


def mute(running: int, used: float, sizes: tuple[int, ...] = TO_16, **facts: Any) -> SizingFacts:
    """What is known of a job whose workers use so much."""
    known: dict[str, Any] = {"gauges": (a_gauge(*(used,) * running),), "is_mute": True, **facts}
    return SizingFacts(sizes=sizes, wanted=running, running=running, **known)


@pytest.mark.parametrize(
    ("used", "size", "reason"),
    [
        pytest.param(0.70, 4, "WithinTolerance", id="as it should be"),
        pytest.param(0.90, 6, "UtilizationHigh", id="more, as an HPA counts"),
        pytest.param(0.40, 3, "UtilizationLow", id="fewer, as an HPA counts"),
        pytest.param(0.00, 1, "UtilizationLow", id="nothing is used"),
    ],
)
def test_utilization_alone_decides(used: float, size: int, reason: str) -> None:
    found = by_use(mute(4, used), None)
    assert (found.size, found.reason) == (size, reason)
    assert found.why.startswith(f"CPU {used:.0%} of a target of 70%; ")
    assert found.numbers["utilization"] == f"{used:.2f}"


@pytest.mark.parametrize(
    ("running", "used", "sizes", "size", "reason"),
    [
        pytest.param(4, 0.9, (2, 4, 8), 8, "UtilizationHigh", id="the next that is enough"),
        pytest.param(4, 0.9, (1, 2, 4), 4, "AtLargestSize", id="no more are allowed"),
        pytest.param(4, 0.5, (4, 8), 4, "AtSmallestSize", id="no fewer are allowed"),
        pytest.param(1, 0.1, (1, 2, 4), 1, "AtSmallestSize", id="fewer than one are none"),
        pytest.param(4, 0.5, (2, 4, 8), 4, "WithinTolerance", id="two would be too few"),
        pytest.param(4, 0.3, (1, 2, 4), 2, "UtilizationLow", id="two will do"),
    ],
)
def test_only_what_is_allowed_is_chosen(
    running: int, used: float, sizes: tuple[int, ...], size: int, reason: str
) -> None:
    found = by_use(mute(running, used, sizes), None)
    assert (found.size, found.reason) == (size, reason)


def test_no_more_than_twice_as_many_at_once() -> None:
    low_target = Gauge(TargetResource.CPU, 0.2, reported=(1.0, 1.0))
    assert by_use(mute(2, 1.0, gauges=(low_target,)), None).size == 4


def test_where_time_is_worth_nothing_the_fewest_are_enough() -> None:
    found = by_use(mute(4, 1.0, hour_worth_usd=0.0), None)
    assert (found.size, found.reason) == (1, ScalingReason.PAYS_OFF)
    found = by_use(mute(1, 1.0, hour_worth_usd=0.0, gauges=()), None)
    assert (found.size, found.reason) == (1, ScalingReason.BEST_SIZE)


@pytest.mark.parametrize("facts", [mute(4, 1.0), mute(4, 0.1), mute(4, 0.7, hour_worth_usd=0.0)])
def test_a_script_that_would_begin_anew_is_left_alone(facts: SizingFacts) -> None:
    found = by_use(replace(facts, has_checkpoints=False), None)
    assert (found.size, found.reason) == (4, ScalingReason.NOT_REPAID)
    why = "but without spec.checkpoint a change would start its training from the beginning"
    assert found.why.endswith(why)


def test_what_is_not_known_is_said_with_its_cause() -> None:
    choice = choose_size(mute(4, 0.0, gauges=(a_gauge(silent=4),)), NO_SCALING, NOW)
    assert choice.reason is Pause.MEASURING
    unknown = mute(4, 0.0, gauges=(a_gauge(silent=4),), use_unknown="there is no metrics.k8s.io")
    choice = choose_size(unknown, NO_SCALING, NOW)
    assert (choice.size, choice.reason) == (4, ScalingReason.NO_UTILIZATION)
    assert choice.why == "there is no metrics.k8s.io"


def test_workers_without_metrics_count_as_the_worse_case() -> None:
    half = mute(4, 0.0, gauges=(a_gauge(1.0, 1.0, silent=2),))
    assert by_use(half, None).size == 4
    half = mute(4, 0.0, gauges=(a_gauge(0.5, 0.5, silent=2),))
    found = by_use(half, None)
    assert (found.size, found.reason) == (4, ScalingReason.WITHIN_TOLERANCE)
    assert found.why.endswith("2 workers have not reported their use, so the size stays")


def test_a_change_has_to_be_justified_for_a_while_and_within_limits() -> None:
    facts = mute(4, 1.0, caps=(Cap(5, ScalingReason.BUDGET_LIMIT),))
    first = choose_size(facts, NO_SCALING, NOW)
    assert (first.size, first.reason) == (4, Pause.STABILIZING)
    then = choose_size(facts, first.memory, NOW + timedelta(seconds=120))
    assert (then.size, then.reason) == (5, ScalingReason.UTILIZATION_HIGH)


def test_what_was_measured_before_the_script_fell_silent_does_not_count() -> None:
    """It was another template, of which eight workers were as slow as four."""
    step: dict[str, Any] = {
        "step_seconds": Decimal(1),
        "samples_per_second": Decimal(8),
        "time": NOW,
    }
    measured = tuple(Measured(workers=size, **step) for size in (4, 8))
    memory = ScalingState(size=4, measured=measured)
    choice = choose_size(mute(4, 1.0, up_after_seconds=0.0), memory, NOW)
    assert (choice.size, choice.reason) == (6, ScalingReason.UTILIZATION_HIGH)


class Life:
    """A job whose workers' use depends on how many there are."""

    def __init__(self, used: Any, size: int, sizes: Sequence[int] = TO_16) -> None:
        self.used, self.size, self.had, self.sizes = used, size, [size], tuple(sizes)
        self.memory: ScalingState = NO_SCALING
        self.now: datetime = NOW

    def live(self, hours: float) -> str:
        end = self.now + timedelta(hours=hours)
        while self.now < end:
            facts = mute(self.size, self.used(self.size), self.sizes)
            choice = choose_size(facts, self.memory, self.now)
            self.memory = choice.memory
            if choice.size != self.size:
                self.size = choice.size
                self.had.append(choice.size)
            self.now += timedelta(minutes=10)
        return choice.reason.value


def test_a_growth_that_is_taken_back_is_not_tried_again_for_hours() -> None:
    """Four are too busy, and six wait for each other: by utilization alone it went on for ever."""
    life = Life(lambda size: 0.9 if size <= 4 else 0.4, 4)
    reason = life.live(5)
    assert (life.had, reason) == ([4, 6, 4], "TriedBefore")
    [rejected] = life.memory.rejected
    assert (rejected.workers, rejected.efficiency) == (6, None)
    life.live(3)
    assert life.had == [4, 6, 4, 6, 4]


@given(st.lists(st.floats(0, 1), min_size=8, max_size=8), st.integers(1, 8))
@settings(max_examples=8)
def test_what_was_given_back_is_not_asked_for_again(used: list[float], start: int) -> None:
    life = Life(lambda size: used[size - 1], start, range(1, 9))
    life.live(3)
    for index, (before, size, after) in enumerate(
        zip(life.had, life.had[1:], life.had[2:], strict=False)
    ):
        if before < size > after:
            assert max(life.had[index + 2 :]) < size
