"""What is remembered of sizes: what a step took at each, and which were in vain."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.scaling.facts import SizingFacts, StepTimes
from spotrun.policies.scaling.size_history import (
    KEPT_FOR,
    OTHER_JOB,
    curve,
    reject,
    rejected_from,
    remember,
)
from spotrun.state.stored.scaling import NO_SCALING, Rejected, ScalingState
from tests.support.jobs.builders import NOW, later

SECOND = timedelta(seconds=1)


def facts(workers: int = 2, seconds: float = 4.0, accelerator: str = "") -> SizingFacts:
    step = StepTimes(workers, seconds, 64.0, 0.75, 0.15, 0.1)
    return SizingFacts(
        sizes=(1, 2, 4), wanted=workers, running=workers, step=step, accelerator=accelerator
    )


KNOWN = remember(remember(NO_SCALING, facts(1, 8.0), NOW), facts(2, 5.0), NOW)


def sizes(memory: ScalingState) -> dict[int, Decimal]:
    return {one.workers: one.step_seconds for one in memory.measured}


def test_what_was_measured_is_kept_by_size_with_what_each_worker_brings() -> None:
    assert sizes(KNOWN) == {1: Decimal(8), 2: Decimal(5)}
    assert KNOWN.efficiency == {"1": Decimal("1.00"), "2": Decimal("0.80")}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(5.2, {1: 8, 2: Decimal(5)}, id="about the same is no news"),
        pytest.param(5.5, {1: 8, 2: Decimal("5.5")}, id="a tenth longer is"),
        pytest.param(5.0 * (1 + OTHER_JOB) + 0.01, {2: Decimal("5.76")}, id="that is another job"),
        pytest.param(4.0, {2: Decimal(4)}, id="so is one that much shorter"),
    ],
)
def test_a_step_that_takes_another_time_tells_of_the_job(
    seconds: float, expected: dict[int, Decimal]
) -> None:
    assert sizes(remember(KNOWN, facts(2, seconds), later(60))) == expected


@pytest.mark.parametrize(
    ("age", "left"), [(KEPT_FOR - SECOND, {1, 2}), (KEPT_FOR, set[int]())], ids=["kept", "too old"]
)
def test_what_is_too_old_is_forgotten(age: timedelta, left: set[int]) -> None:
    silent = replace(facts(), step=None)
    assert set(sizes(remember(KNOWN, silent, NOW + age))) == left


def test_what_is_confirmed_keeps_all_else_from_growing_old() -> None:
    confirmed = remember(KNOWN, facts(2, 5.0), NOW + KEPT_FOR - SECOND)
    assert set(sizes(remember(confirmed, facts(2, 5.0), NOW + KEPT_FOR + SECOND))) == {1, 2}


def test_another_accelerator_is_another_job() -> None:
    assert set(sizes(remember(KNOWN, facts(2, 5.0, accelerator="H100"), later(1)))) == {2}


def test_sizes_in_vain_are_forgotten_once_their_time_is_over() -> None:
    memory = reject(NO_SCALING, 4, 0.3, later(60))
    assert rejected_from(remember(memory, facts(), later(59))) is not None
    assert rejected_from(remember(memory, facts(), later(60))) is None


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        pytest.param((4, 60), (8, 90), [(4, 60), (8, 90)], id="larger: both"),
        pytest.param((8, 60), (4, 30), [(4, 30)], id="smaller: it says the larger one as well"),
        pytest.param((4, 90), (4, 30), [(4, 90)], id="the same: for as long as was said"),
    ],
)
def test_a_size_in_vain_counts_for_all_larger_ones(
    first: tuple[int, int], then: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    memory = NO_SCALING
    for workers, seconds in (first, then):
        memory = reject(memory, workers, 0.25, later(seconds))
    found = [Rejected(n, later(s), Decimal("0.25")) for n, s in expected]
    assert list(memory.rejected) == found
    assert rejected_from(memory) == found[0]


def test_there_is_no_curve_before_anything_was_measured() -> None:
    assert curve(NO_SCALING, facts()) is None
    found = curve(KNOWN, facts())
    assert found is not None
    assert [(one.workers, one.seconds, one.compute) for one in found.points] == [
        (1, 8.0, 0.75),
        (2, 5.0, 0.75),
    ]


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.1, 100)), min_size=1, max_size=40))
def test_it_is_short_in_order_and_says_the_newest_size(looks: list[tuple[int, float]]) -> None:
    memory = NO_SCALING
    for number, (workers, seconds) in enumerate(looks):
        memory = remember(memory, facts(workers, seconds), later(number))
    found = [one.workers for one in memory.measured]
    assert found == sorted(set(found))
    assert len(found) <= 16
    assert looks[-1][0] in found
