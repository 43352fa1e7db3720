"""What is computed of a step that goes on in another world."""

from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data.order.resumption import (
    NOTHING_HELD,
    ROW_SIZE,
    Held,
    Resumption,
    decode,
    encode,
    ranges_of,
    resume,
)
from spotrun_trainer.data.order.sharding import deal


def test_the_survivor_of_two_computes_what_the_other_one_had_and_what_it_has_not_done_yet() -> None:
    assert resume([Held(6, ((0, 2),))], 6, 0) == Resumption((2, 3, 4, 5), keeps=True, gives=True)


def test_what_a_lost_worker_had_is_spread_over_those_that_are_left() -> None:
    held = [Held(6, ((0, 2),)), Held(6, ((4, 6),))]
    assert [resume(held, 6, rank) for rank in (0, 1)] == [
        Resumption((2,), keeps=True, gives=True),
        Resumption((3,), keeps=True),
    ]


def test_a_joining_worker_gets_none_while_it_is_idle() -> None:
    held = [Held(6, ((0, 3),)), NOTHING_HELD]
    assert resume(held, 6, 0, {1}) == Resumption((3, 4, 5), keeps=True, gives=True)
    assert resume(held, 6, 1, {1}) == Resumption((), keeps=False)


def test_a_step_of_which_nobody_holds_anything_begins_anew() -> None:
    assert resume([NOTHING_HELD, NOTHING_HELD], 6, 0) is None
    assert resume([], 6, 0) is None


def test_microbatches_of_another_size_do_not_count() -> None:
    assert resume([Held(12, ((0, 3),)), NOTHING_HELD], 6, 0) is None


def test_of_two_that_hold_the_same_microbatch_one_counts() -> None:
    held = [Held(6, ((0, 2),)), Held(6, ((1, 4),)), Held(6, ((5, 6),))]
    parts = [resume(held, 6, rank) for rank in range(3)]
    assert [part is not None and part.keeps for part in parts] == [False, True, True]
    assert [part and part.computes for part in parts] == [(0,), (4,), ()]


def test_sums_over_all_come_from_the_first_that_has_most_of_them() -> None:
    held = [Held(6, ((0, 2),), buckets=1), Held(6, ((2, 4),), 3), Held(6, ((4, 6),), 3)]
    parts = [resume(held, 6, rank) for rank in range(3)]
    assert [part and (part.buckets, part.gives) for part in parts] == [
        (3, False),
        (3, True),
        (3, False),
    ]


def test_what_does_not_fit_into_a_row_is_not_held() -> None:
    held = Held(100, tuple((2 * number, 2 * number + 1) for number in range(ROW_SIZE)))
    assert decode(encode(held)) == NOTHING_HELD


@given(st.sets(st.integers(0, 30), max_size=8), st.integers(0, 5))
def test_a_row_says_what_is_held(numbers: set[int], buckets: int) -> None:
    held = Held(31, ranges_of(numbers), buckets)
    row = encode(held)
    assert len(row) == ROW_SIZE
    assert decode(row) == held
    assert held.numbers == sorted(numbers)


@given(st.data())
def test_whenever_workers_are_lost_and_join_each_microbatch_is_computed_once(
    data: st.DataObject,
) -> None:
    microbatches = data.draw(st.integers(1, 24))
    size = data.draw(st.integers(1, 6))
    has: list[set[int]] = [set() for _ in range(size)]
    dealt: list[list[int]] = [list(deal(microbatches, size, rank)) for rank in range(size)]
    for _ in range(data.draw(st.integers(1, 3))):
        for rank, computes in enumerate(dealt):
            has[rank] |= set(computes[: data.draw(st.integers(0, len(computes)))])
        lost = data.draw(st.sets(st.integers(0, len(has) - 1), max_size=len(has) - 1))
        joining = data.draw(st.integers(0, 2))
        has = [one for rank, one in enumerate(has) if rank not in lost] + [set()] * joining
        idle = set(range(len(has) - joining, len(has)))
        held = [Held(microbatches, ranges_of(one)) for one in has]
        parts = [resume(held, microbatches, rank, idle) for rank in range(len(has))]
        if None in parts:
            assert not any(has)
            return
        dealt = [list(part.computes) for part in parts if part is not None]
        assert not any(dealt[rank] for rank in idle)
        numbers = [len(computes) for rank, computes in enumerate(dealt) if rank not in idle]
        assert max(numbers) - min(numbers) <= 1
        counted = [*(number for one in has for number in one), *(n for one in dealt for n in one)]
        assert sorted(counted) == list(range(microbatches))
        has = [set(one) for one in has]
