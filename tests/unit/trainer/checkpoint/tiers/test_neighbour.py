"""Who keeps whose copy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint.tiers.neighbour import keepers


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (["a"], [None]),
        (["a", "a"], [None, None]),
        (["a", "b"], [1, 0]),
        (["a", "b", "c"], [1, 2, 0]),
        (["a", "a", "b", "b"], [2, 3, 0, 1]),
        (["a", "b", "a", "b"], [1, 0, 3, 2]),
        (["a", "a", "a", "b"], [3, 3, 3, 0]),
    ],
)
def test_the_next_node_keeps_the_copy(nodes: list[str], expected: list[int | None]) -> None:
    assert [*keepers(nodes)] == expected


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=24))
def test_no_single_node_has_both(nodes: list[str]) -> None:
    found = keepers(nodes)
    if len(set(nodes)) == 1:
        assert set(found) == {None}
        return
    for worker, keeper in enumerate(found):
        assert keeper is not None
        assert nodes[keeper] != nodes[worker]


@given(st.integers(2, 12), st.integers(1, 8))
def test_equal_nodes_keep_equally_many(num_nodes: int, each: int) -> None:
    nodes = [f"n{node}" for node in range(num_nodes) for _ in range(each)]
    assert sorted(keepers(nodes)) == [*range(num_nodes * each)]  # type: ignore[type-var]
