"""The sizes to choose from: those at which a step gets shorter, and that were not in vain."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.scaling.benefit import Curve, Point, Rounds
from spotrun.policies.scaling.options import Options, options
from spotrun.policies.scaling.worth import Worth
from spotrun.state.stored.scaling import NO_SCALING, Rejected, ScalingState
from tests.support.jobs.builders import later
from tests.support.jobs.scaling_lives import Curve as Steps
from tests.support.jobs.scaling_lives import facts_at, linear, starving

TO_8 = range(1, 9)
IN_VAIN = ScalingState(rejected=(Rejected(workers=6, until=later(60)),))


def found(
    steps: Steps = linear,
    size: int = 4,
    memory: ScalingState = NO_SCALING,
    measured: tuple[int, ...] = (4,),
    microbatches: int | None = None,
) -> Options:
    facts = facts_at(steps, size, TO_8)
    points = tuple(Point(n, sum(steps(n))) for n in measured)
    return options(facts, memory, Curve(points, Rounds(microbatches, 1)))


def test_sizes_below_and_above_the_one_that_trains() -> None:
    those = found(measured=(2, 4))
    assert (those.base, those.smaller, those.tried) == (4, (1, 2, 3), None)
    assert those.larger
    assert all(4 < size <= those.curve.prudent for size in those.larger)


@pytest.mark.parametrize(
    ("microbatches", "sizes"), [(4, (1, 2, 4)), (6, (1, 2, 3, 4, 6)), (1, (1, 4))]
)
def test_a_size_that_makes_no_step_shorter_is_none_but_for_the_one_that_trains(
    microbatches: int, sizes: tuple[int, ...]
) -> None:
    assert found(microbatches=microbatches).sizes == sizes


def test_from_a_size_on_that_was_in_vain_none_is_grown_to() -> None:
    free, tried = found(measured=(2, 4)), found(measured=(2, 4), memory=IN_VAIN)
    assert tried.tried == 6
    assert tried.larger == tuple(size for size in free.larger if size < 6)
    assert tried.smaller == free.smaller


def test_the_benefit_of_the_last_workers_is_poor_where_more_brought_nothing() -> None:
    poor = found(starving, size=4, measured=(2, 4)).poor
    assert poor is not None
    assert poor.workers == 2
    assert poor.efficiency < 0.6
    assert poor.why.startswith("more workers than 2 brought ")


@pytest.mark.parametrize("measured", [(4,), (2,), (2, 4)], ids=str)
def test_it_is_not_poor_where_they_divide_the_work_or_nothing_was_compared(
    measured: tuple[int, ...],
) -> None:
    assert found(linear, measured=measured).poor is None


def test_a_change_is_repaid_only_while_there_is_work_left_to_do_faster() -> None:
    those, worth = found(measured=(2, 4)), Worth(1.0, 100.0)
    nothing_left = replace(those, facts=replace(those.facts, remaining_samples=0.0))
    assert those.repaid(worth, [8]) == [8]
    assert nothing_left.repaid(worth, [8]) == []


@given(st.integers(1, 8), st.integers(1, 64))
def test_the_size_that_trains_is_always_one_and_they_ascend(size: int, microbatches: int) -> None:
    those = found(size=size, measured=(size,), microbatches=microbatches)
    assert size in those.sizes
    assert list(those.sizes) == sorted(set(those.sizes))
    assert set(those.smaller) | {size} | {n for n in those.sizes if n > size} == set(those.sizes)
