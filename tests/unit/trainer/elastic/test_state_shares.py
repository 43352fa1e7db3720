"""Who sends which ranges of a state: everything once, and by nobody more than its share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.elastic.state_shares import Range, Size, share_out

SIZES = st.lists(
    st.builds(Size, st.integers(0, 10_000), st.sampled_from([1, 2, 4, 8, 16])), max_size=20
)
SOURCES = st.integers(1, 8)


@pytest.mark.parametrize(
    ("sizes", "sources", "shares"),
    [
        pytest.param([], 3, [[], [], []], id="nothing is tracked"),
        pytest.param(
            [Size(4, 8), Size(0, 4), Size(2, 4)],
            1,
            [[Range(0, 0, 4), Range(2, 0, 2)]],
            id="one sends all; what is empty is not sent",
        ),
        pytest.param(
            [Size(10, 4), Size(10, 4)],
            2,
            [[Range(0, 0, 10)], [Range(1, 0, 10)]],
            id="as many bytes each",
        ),
        pytest.param(
            [Size(30, 4)],
            3,
            [[Range(0, 0, 10)], [Range(0, 10, 20)], [Range(0, 20, 30)]],
            id="a large one is sent by several",
        ),
        pytest.param(
            [Size(2, 4), Size(8, 8)],
            2,
            [[Range(0, 0, 2), Range(1, 0, 4)], [Range(1, 4, 8)]],
            id="an element is not cut",
        ),
        pytest.param([Size(1, 8)], 2, [[Range(0, 0, 1)], []], id="fewer elements than processes"),
    ],
)
def test_each_sends_a_stretch(sizes: list[Size], sources: int, shares: list[list[Range]]) -> None:
    assert share_out(sizes, sources) == shares


@given(SIZES, SOURCES)
def test_every_element_is_sent_once_and_in_order(sizes: list[Size], sources: int) -> None:
    sent = [
        (one.message, element)
        for ranges in share_out(sizes, sources)
        for one in ranges
        for element in range(one.start, one.stop)
    ]
    assert sent == [(n, element) for n, size in enumerate(sizes) for element in range(size.numel)]


@given(SIZES, SOURCES)
def test_none_sends_more_than_its_share_by_more_than_an_element(
    sizes: list[Size], sources: int
) -> None:
    total = sum(size.num_bytes for size in sizes)
    for ranges in share_out(sizes, sources):
        num_bytes = sum((one.stop - one.start) * sizes[one.message].itemsize for one in ranges)
        assert num_bytes < total / sources + 16 + 1
