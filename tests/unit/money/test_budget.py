from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.budget import (
    HEADROOM,
    affordable,
    levels_crossed,
    reserve,
    stop_at,
    used_percent,
)
from spotrun.money.units import Usd, UsdPerHour, seconds_between
from tests.unit.money.builders import NOON, after, per_hour, prices_per_hour

amounts = st.decimals(min_value=0, max_value=10_000, places=12).map(Usd)


def usd(text: str) -> Usd:
    return Usd(Decimal(text))


@pytest.mark.parametrize(
    ("spent", "percent"),
    [("0", "0%"), ("51.5", "42%"), ("119.999", "99%"), ("120", "100%"), ("150", "125%")],
)
def test_a_budget_is_used_up_at_100_percent_and_not_before(spent: str, percent: str) -> None:
    assert used_percent(usd(spent), usd("120")) == percent


def test_a_budget_that_is_next_to_nothing_has_a_percentage_too() -> None:
    assert used_percent(usd("1000"), usd("0.000000000001")) == "999999%"


@pytest.mark.parametrize(
    ("before", "after_that", "crossed"),
    [
        ("0", "59.99", ()),
        ("59.99", "60", (50,)),
        ("60", "61", ()),
        ("0", "100", (50, 80)),
        ("60", "96", (80,)),
        ("61", "60", ()),
    ],
)
def test_each_level_is_crossed_once(before: str, after_that: str, crossed: tuple[int, ...]) -> None:
    assert levels_crossed(usd(before), usd(after_that), usd("120"), (50, 80)) == crossed


def test_the_last_checkpoint_and_the_end_of_the_workers_are_paid_in_advance() -> None:
    assert reserve(UsdPerHour(10), Decimal(60), Decimal(30)) == usd("0.3")


@given(amounts, amounts, amounts, prices_per_hour, st.decimals(0, 1, places=6))
def test_nobody_who_stops_in_time_passes_the_limit(
    limit: Usd, spent: Usd, reserved: Usd, rate: UsdPerHour, dearer: Decimal
) -> None:
    """Not even at the highest rate allowed for."""
    when = stop_at(limit=limit, spent=spent, reserved=reserved, rate=rate, now=NOON)
    if when is None or spent + reserved > limit:
        return
    rate_then = rate * (1 + dearer * (HEADROOM - 1))
    assert spent + rate_then.over(seconds_between(NOON, when)) + reserved <= limit


@given(amounts, amounts, prices_per_hour)
def test_nobody_is_stopped_while_there_is_money_for_longer(
    limit: Usd, spent: Usd, rate: UsdPerHour
) -> None:
    when = stop_at(limit=limit, spent=spent, reserved=Usd(), rate=rate, now=NOON)
    if when is None or spent > limit:
        return
    longer = seconds_between(NOON, when) + Decimal("0.000001")
    assert spent + (rate * HEADROOM).over(longer) > limit


@pytest.mark.parametrize(
    ("spent", "rate", "when"),
    [
        ("10", "1", NOON),
        ("11", "1", NOON),
        ("10", "0", None),
        ("4", "5", after(hours=1)),
        ("9.4", "1", after(minutes=30)),
        ("0", "0.000000000001", None),
    ],
)
def test_when_to_stop(spent: str, rate: str, when: object) -> None:
    stop = stop_at(limit=usd("10"), spent=usd(spent), reserved=Usd(), rate=per_hour(rate), now=NOON)
    assert stop == when


def test_money_that_is_held_back_brings_the_end_nearer() -> None:
    stop = stop_at(limit=usd("10"), spent=usd("4"), reserved=usd("3"), rate=UsdPerHour(5), now=NOON)
    assert stop == NOON + timedelta(minutes=30)


def test_as_many_workers_as_the_rate_allows_in_the_order_given() -> None:
    rates = [per_hour("1"), per_hour("0.4"), per_hour("3"), per_hour("0.1")]
    assert [affordable(per_hour(limit), rates) for limit in ("0.9", "1.4", "4.3", "9")] == [
        0,
        2,
        2,
        4,
    ]
    assert affordable(UsdPerHour(), []) == 0
