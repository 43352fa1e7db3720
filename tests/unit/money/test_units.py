from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.field_types.amounts import Amount
from spotrun.money.units import NO_USD, Usd, UsdPerHour, seconds_between, total_over
from tests.unit.money.builders import NOON, after, per_hour


def test_an_hour_costs_the_price_per_hour() -> None:
    assert per_hour("2.40").over(3600) == Usd(Decimal("2.40"))
    assert per_hour("2.40").over(Decimal("0.5")).exact == Fraction(24, 10) / 7200


def test_three_thirds_are_a_whole() -> None:
    second = per_hour("1").over(1)
    assert sum([second] * 3600, Usd()) == Usd(1)
    assert second.decimal == Decimal("0.000277777778")


@given(st.lists(st.decimals(min_value=0, max_value=999_999, places=12), max_size=20))
def test_what_is_added_is_not_rounded(numbers: list[Decimal]) -> None:
    added = sum((Usd(number) for number in numbers), Usd())
    assert added.exact == sum(map(Fraction, numbers), Fraction(0))
    assert Usd.of(added.amount) == added


@pytest.mark.parametrize("number", [0.1, float("nan"), 1e300])
def test_floats_are_refused(number: Any) -> None:
    for make in (Usd, UsdPerHour, per_hour("1").over, per_hour("1").__mul__):
        with pytest.raises(TypeError, match="give a Decimal, not the float"):
            make(number)


def test_money_and_rates_have_no_sum_and_no_order() -> None:
    mixed: Any = per_hour("1")
    with pytest.raises(TypeError, match="different kinds"):
        Usd(1) + mixed
    with pytest.raises(TypeError, match="different kinds"):
        Usd(1) - mixed
    with pytest.raises(TypeError, match="not supported between"):
        _ = Usd(1) < mixed
    assert Usd(1) != mixed


def test_amounts_are_written_to_the_twelfth_place_and_never_out_of_range() -> None:
    assert Usd(Fraction(2, 3)).amount == "0.666666666667"
    assert Usd(Fraction(-2, 3)).signed_amount == "-0.666666666667"
    assert Usd(10**15).amount == "999999999999.999999999999"
    assert Usd(-(10**15)).signed_amount == "-999999999999.999999999999"
    assert Usd.of(None) == Usd(0)
    assert UsdPerHour.of(Amount("0.4213")) == per_hour("0.4213")


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        ("0", "$0.00"),
        ("12.345", "$12.34"),
        ("12.346", "$12.35"),
        ("-3.1", "-$3.10"),
        ("0.01", "$0.01"),
        ("0.005", "$0.00500"),
        ("0.0041237", "$0.00412"),
        ("1234567", "$1234567.00"),
    ],
)
def test_money_is_shown_to_the_cent_and_small_sums_to_three_digits(usd: str, text: str) -> None:
    assert str(Usd(Decimal(usd))) == text
    assert str(per_hour(usd)) == f"{text}/h"


def test_how_long_money_lasts_is_never_too_long() -> None:
    lasts = per_hour("7").seconds_for(Usd(1))
    assert lasts == Decimal("514.285714")
    assert per_hour("7").over(lasts) <= Usd(1)
    assert UsdPerHour().seconds_for(Usd(1)) is None
    assert per_hour("7").seconds_for(Usd()) == 0


def test_time_is_counted_to_the_microsecond() -> None:
    assert seconds_between(NOON, after(microseconds=1)) == Decimal("0.000001")
    assert seconds_between(after(days=400, seconds=1), NOON) == -34_560_001


def test_money_is_a_value() -> None:
    assert {Usd(1), Usd(Decimal("1.0"))} == {Usd(1)}
    assert bool(Usd()) is False
    assert repr(Usd(Decimal("0.5"))) == "Usd(1/2)"


rates = st.fractions(0, 1000).map(UsdPerHour) | st.decimals(0, 99, places=12).map(UsdPerHour)
times = st.timedeltas(timedelta(0), timedelta(days=400))


@given(st.lists(st.tuples(rates, times)))
def test_rates_are_added_up_as_each_for_itself(parts: list[tuple[UsdPerHour, timedelta]]) -> None:
    each = [rate.over(Fraction(time // timedelta.resolution, 10**6)) for rate, time in parts]
    assert total_over(parts) == sum(each, NO_USD)
