"""Sums in the order of the tree: the same bits whoever added what."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data.order.sharding import deal
from spotrun_trainer.step.reduce.tree_sum import Node, TreeSum, check_leaves, subtrees

LEAVES = st.sampled_from([1, 2, 4, 8, 16, 64])


def summed(values: list[float], size: int) -> float:
    """What so many processes compute, each from its block, and the owner from their nodes."""
    whole = TreeSum[float](lambda left, right: left + right)
    for rank in range(size):
        part = TreeSum[float](lambda left, right: left + right)
        for leaf in deal(len(values), size, rank):
            part.push(Node(leaf, 1, values[leaf]))
        for node in part.nodes:
            whole.push(node)
    return whole.root(len(values))


@given(LEAVES, st.integers(1, 70), st.integers())
def test_a_sum_has_the_same_bits_at_every_number_of_processes(
    leaves: int, size: int, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    values = [dice.gauss(0, 10.0 ** dice.randint(-8, 8)) for _ in range(leaves)]
    assert summed(values, 1) == summed(values, size)


@pytest.mark.parametrize("size", [3, 5, 7])
def test_plain_sums_of_blocks_would_differ(size: int) -> None:
    dice = random.Random(size)  # noqa: S311 - no secret
    values = [dice.gauss(0, 1) for _ in range(64)]
    blocks = [sum(values[leaf] for leaf in deal(64, size, rank)) for rank in range(size)]
    assert sum(values) != sum(blocks)
    assert summed(values, 1) == summed(values, size)


@given(LEAVES, st.integers(1, 70))
def test_a_process_holds_at_most_two_subtrees_of_each_size(leaves: int, size: int) -> None:
    for rank in range(size):
        held = [leaves for _, leaves in subtrees(deal(leaves, size, rank))]
        assert all(held.count(one) <= 2 for one in held)


def test_subtrees_are_the_largest_whole_ones() -> None:
    assert subtrees(range(3, 11)) == [(3, 1), (4, 4), (8, 2), (10, 1)]


@pytest.mark.parametrize("leaves", [1, 2, 4, 1024])
def test_powers_of_two_make_a_tree(leaves: int) -> None:
    check_leaves(leaves)


@pytest.mark.parametrize(("leaves", "hint"), [(3, "2 or 4"), (6, "4 or 8"), (1000, "512 or 1024")])
def test_other_numbers_of_microbatches_are_refused_with_the_nearest(leaves: int, hint: str) -> None:
    with pytest.raises(ValueError, match=f"{leaves} microbatches .* do not make one.*{hint}"):
        check_leaves(leaves)
