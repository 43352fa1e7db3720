"""Which microbatches are computed twice, and whose result is wrong."""

from collections.abc import Mapping, Sequence

import pytest

from spotrun_trainer.data.order.sharding import deal
from spotrun_trainer.step.device_check import (
    Results,
    disputed,
    plan_of,
    results_of,
    right_result,
    wrong_ranks,
)

RIGHT, WRONG, OTHER = 7, 8, 9


def blocks(microbatches: int, size: int) -> list[range]:
    return [deal(microbatches, size, rank) for rank in range(size)]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("microbatches", [8, 16])
def test_each_process_computes_one_of_the_next_process(microbatches: int, size: int) -> None:
    dealt = blocks(microbatches, size)
    for turn in range(5):
        plan = plan_of(dealt, turn)
        for rank, number in enumerate(plan.again):
            assert number is not None
            assert plan.owner(number) == (rank + 1) % size
            assert plan.first_of(plan.owner(number)) == number


def test_all_microbatches_have_their_turn() -> None:
    dealt = blocks(16, 2)
    seen = {one for turn in range(8) for one in plan_of(dealt, turn).again}
    assert seen == set(range(16))


@pytest.mark.parametrize(
    "dealt",
    [blocks(4, 1), [range(0), range(4)], [range(0), range(0)]],
    ids=["alone", "one computes", "none computes"],
)
def test_nothing_is_computed_twice_unless_two_processes_compute(dealt: list[range]) -> None:
    assert set(plan_of(dealt, 0).again) == {None}


def test_idle_processes_compute_nothing() -> None:
    plan = plan_of([range(2), range(0), range(2, 4)], 0)
    assert plan.again == [2, None, 0]
    assert plan_of(plan.blocks, 0, number=3).again == [3, None, 3]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ([1, 2, 3], [2, 3, 1], None),
        ([1, 2, 3], [2, 3, 9], 0),  # rank 2 computed the one of rank 0
        ([1, 9, 3], [2, 9, 1], 2),  # rank 1 is wrong twice: its own comes later
        ([1, 9, 3], [2, 3, 1], 2),
        ([0, 0, 0], [2, 3, 1], None),  # the step was given up: there is nothing to compare
        ([1, 2, 3], [0, 0, 0], None),
    ],
)
def test_a_difference_is_found(
    first: Sequence[int], second: Sequence[int], found: int | None
) -> None:
    plan = plan_of(blocks(4, 3), 0)  # rank 0 has two of them
    assert plan.again == [2, 3, 0]
    assert disputed(plan, Results(first, second)) == found
    if found is not None:
        owner = plan.owner(found)
        again = plan.again.index(found)
        known = results_of(found, plan, Results(first, second))
        assert known == {owner: first[owner], again: second[again]}


@pytest.mark.parametrize(
    ("second", "right"),
    [
        ([RIGHT, RIGHT], RIGHT),
        ([RIGHT, WRONG], None),
        ([RIGHT, WRONG, RIGHT], RIGHT),
        ([RIGHT, 0, RIGHT, WRONG], RIGHT),  # an idle process has no vote
        ([RIGHT, WRONG, OTHER], None),
        ([RIGHT, RIGHT, WRONG, WRONG], None),
        ([0, 0], None),
        ([], None),
    ],
)
def test_more_than_half_decide(second: Sequence[int], right: int | None) -> None:
    assert right_result(second) == right


@pytest.mark.parametrize(
    ("earlier", "second", "again", "before"),
    [
        ({1: WRONG, 0: RIGHT}, [RIGHT, WRONG, RIGHT], {1}, set()),
        ({1: WRONG, 0: RIGHT}, [RIGHT, RIGHT, RIGHT], set(), {1}),
        ({1: RIGHT, 0: RIGHT}, [RIGHT, OTHER, RIGHT], {1}, set()),
        ({0: WRONG, 1: 0}, [RIGHT, 0, RIGHT, OTHER], {3}, {0}),
    ],
)
def test_who_is_wrong(
    earlier: Mapping[int, int], second: Sequence[int], again: set[int], before: set[int]
) -> None:
    assert wrong_ranks(RIGHT, earlier, second) == (again, before)
