"""Who gets which microbatches."""

from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data.order.sharding import (
    Block,
    Share,
    block_of,
    deal,
    deal_to,
    earliest,
    upcoming,
)

COUNTS = st.integers(0, 200)
SIZES = st.integers(1, 40)


@given(COUNTS, SIZES)
def test_each_microbatch_is_dealt_once_in_the_order_of_the_ranks(
    microbatches: int, size: int
) -> None:
    dealt = [number for rank in range(size) for number in deal(microbatches, size, rank)]

    assert list(range(microbatches)) == dealt


@given(COUNTS, SIZES)
def test_shares_differ_by_one_at_most(microbatches: int, size: int) -> None:
    shares = [len(deal(microbatches, size, rank)) for rank in range(size)]

    assert max(shares) - min(shares) <= 1
    assert sorted(shares, reverse=True) == shares


@given(COUNTS, st.lists(st.booleans(), min_size=1, max_size=20).filter(any))
def test_the_idle_get_nothing_and_the_others_what_they_would_without_them(
    microbatches: int, works: list[bool]
) -> None:
    idle = {rank for rank, one in enumerate(works) if not one}
    dealt = [deal(microbatches, len(works), rank, idle) for rank in range(len(works))]

    assert all(len(dealt[rank]) == 0 for rank in idle)
    assert [part for part, one in zip(dealt, works, strict=True) if one] == [
        deal(microbatches, sum(works), place) for place in range(sum(works))
    ]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(1, 4))
def test_given_numbers_are_dealt_once_in_order_and_alike_to_the_parts_of_a_copy(
    numbers: list[int], parts: int
) -> None:
    copies, microbatches = len(numbers), sum(numbers) * parts
    dealt = [
        deal_to(microbatches, Share(copies, copy, parts=parts, part=part, dealt=numbers))
        for copy in range(copies)
        for part in range(parts)
    ]

    assert [number for each in dealt for number in each] == list(range(microbatches))
    assert [len(each) for each in dealt] == [one for one in numbers for _ in range(parts)]


def test_a_block_is_a_part_of_its_step() -> None:
    # 5 microbatches of 4 samples for 2 processes, in the step that begins with sample 60.
    assert Block(60, microbatches=3, microbatch=4, stride=20) == block_of(60, 20, 4, Share(2, 0))
    assert Block(72, microbatches=2, microbatch=4, stride=20) == block_of(60, 20, 4, Share(2, 1))


def test_what_comes_next_is_the_rest_of_the_block_and_the_same_part_of_later_steps() -> None:
    block = Block(72, microbatches=2, microbatch=4, stride=20)

    assert upcoming(block, 1, 4) == [(76, 4), (92, 4), (96, 4), (112, 4)]


def test_nothing_comes_after_a_block_without_a_stride() -> None:
    assert upcoming(Block(72, microbatches=2, microbatch=4), 1, 4) == [(76, 4)]


def test_a_process_without_microbatches_expects_none() -> None:
    assert upcoming(Block(72, microbatches=0, microbatch=4, stride=20), 0, 4) == []


@given(COUNTS.filter(bool), SIZES, st.integers(0, 30), st.integers(1, 9), st.data())
def test_the_earliest_sample_that_a_step_may_begin_with_is_never_after_its_first(
    microbatches: int, size: int, step: int, microbatch: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, size - 1))
    step_start = step * microbatches * microbatch
    block = block_of(step_start, microbatches * microbatch, microbatch, Share(size, rank))

    assert step_start - microbatches * microbatch <= earliest(block) <= step_start
