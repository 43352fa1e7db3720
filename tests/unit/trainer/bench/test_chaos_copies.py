"""Whole copies of a model are made up of workers, and some of them may be lost."""

import pytest

from bench.chaos_copies import Workers, whole_copies

PARTS = {"a0": 0, "a1": 1, "b0": 0, "b1": 1}


@pytest.mark.parametrize(
    ("workers", "holders", "copies"),
    [
        pytest.param("a0 a1 b0 b1", "", "a0 a1 b0 b1", id="two copies"),
        pytest.param("b1 b0 a1 a0", "", "b0 b1 a0 a1", id="each in its place, in their order"),
        pytest.param("a0 b1", "", "a0 b1", id="of two copies that each lost another part"),
        pytest.param("a0 a1 b0", "a1 b0", "b0 a1", id="who holds the state comes before others"),
        pytest.param("a0 b0", "a0 b0", "", id="no copy is whole"),
    ],
)
def test_workers_make_up_as_many_copies_as_there_are_mates_for(
    workers: str, holders: str, copies: str
) -> None:
    assert whole_copies(workers.split(), PARTS, holders.split()) == copies.split()


def two_copies(shard: int) -> Workers:
    workers = Workers(shard)
    workers.form([*workers.add_copy(), *workers.add_copy()])
    workers.holders = set(workers.members)
    return workers


def test_one_holder_of_each_part_has_to_stay() -> None:
    workers = two_copies(2)
    assert workers.expendable == ["w1", "w2", "w3", "w4"]
    workers.lose("w2")
    assert workers.expendable == ["w1", "w3"]
    workers.form(workers.usable)
    assert (workers.members, workers.idle, workers.expendable) == (["w1", "w4"], ["w3"], [])


def test_a_joining_worker_takes_the_part_that_is_missing() -> None:
    workers = two_copies(2)
    assert workers.parts_of_joining_workers() == [0, 1]
    workers.lose("w2")
    assert workers.parts_of_joining_workers() == [1]


def test_where_each_holds_the_whole_model_one_worker_is_a_copy() -> None:
    workers = two_copies(1)
    assert (workers.members, workers.can_lose) == (["w1", "w2"], 1)
    workers.lose("w1")
    assert (workers.expendable, workers.parts_of_joining_workers()) == ([], [0])
