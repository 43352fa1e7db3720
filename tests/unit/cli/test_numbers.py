"""Numbers on command lines: a wrong one is refused with what it should be."""

import argparse
from collections.abc import Callable
from decimal import Decimal

import pytest

from spotrun.cli.text import numbers


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (numbers.usd, "20.50", Decimal("20.50")),
        (numbers.usd_per_hour, "0", Decimal(0)),
        (numbers.part_of_100, "99.5", Decimal("99.5")),
        (numbers.hours, "0.5", 0.5),
        (numbers.count, "3", 3),
    ],
)
def test_a_number_is_read_to_the_digit(
    read: Callable[[str], object], text: str, expected: object
) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (numbers.usd, "-5", "'-5' is not an amount in USD from 0.01 to 1000000000"),
        (numbers.usd, "0", "'0' is not an amount in USD from 0.01"),
        (numbers.usd, "$20", "is not an amount in USD"),
        (numbers.usd, "nan", "is not an amount in USD"),
        (numbers.usd_per_hour, "-1", "is not USD per hour from 0"),
        (numbers.part_of_100, "-5", "'-5' is not a percentage from 0 to 100"),
        (numbers.part_of_100, "100", "'100' is not a percentage below 100"),
        (numbers.hours, "0", "is not hours from 0.001"),
        (numbers.count, "1.5", "is not a whole number from 1"),
        (numbers.whole, "inf", "is not a whole number from 0"),
    ],
)
def test_what_it_should_be_is_said(read: Callable[[str], object], text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        read(text)
    assert said in str(refused.value)
