"""Sums are divided without a unit too many or too few."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.cost.billing.apportion import apportion


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (10, [1, 1], [5, 5]),
        (11, [1, 1], [6, 5]),  # of equal remainders the earlier one gets more
        (100, [1, 2, 3], [17, 33, 50]),
        (-11, [1, 1], [-6, -5]),
        (7, [0, 0], [7, 0]),
        (7, [-3, 1], [0, 7]),  # a part that fell below zero gets nothing
        (0, [1, 5], [0, 0]),
        (5, [Fraction(1, 3), Fraction(2, 3)], [2, 3]),
    ],
)
def test_a_sum_is_divided_by_the_largest_remainder(
    total: int, weights: list[int], parts: list[int]
) -> None:
    assert apportion(total, weights) == parts


def test_no_parts_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="no parts"):
        apportion(1, [])


@given(st.integers(-(10**9), 10**9), st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_parts_add_up_and_none_is_a_unit_from_its_share(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert sum(parts) == total
    if sum(weights):
        for part, weight in zip(parts, weights, strict=True):
            assert abs(part - Fraction(total * weight, sum(weights))) < 1
