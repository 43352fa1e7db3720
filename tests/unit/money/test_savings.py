from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.savings import goodput, lost_work, saved_usd
from spotrun.money.units import Usd, UsdPerHour

amounts = st.decimals(min_value=0, max_value=10_000, places=12).map(Usd)


@given(amounts, amounts)
def test_saved_and_paid_are_the_counterfactual(on_demand: Usd, paid: Usd) -> None:
    assert saved_usd(on_demand, paid) + paid == on_demand


def test_what_was_not_saved_is_shown_as_negative() -> None:
    assert str(saved_usd(Usd(10), Usd(Decimal("12.5")))) == "-$2.50"


def test_steps_done_twice_and_the_stall_are_lost() -> None:
    lost = lost_work(
        redone_steps=30,
        step_seconds=Decimal("0.5"),
        stall_seconds=Decimal(45),
        rate=UsdPerHour(60),
    )
    assert (lost.redone, lost.standstill) == (Usd(Decimal("0.25")), Usd(Decimal("0.75")))
    assert lost.usd == Usd(1)


@pytest.mark.parametrize(
    ("useful", "paid", "part"),
    [
        ("9", "10", "90%"),
        ("2", "3", "66%"),  # rounded down: 100% is all of it
        ("0", "3", "0%"),
        ("4", "3", "100%"),  # steps are timed by those who do them
        ("0", "0", None),
    ],
)
def test_goodput_is_the_part_of_what_was_paid_that_bought_steps(
    useful: str, paid: str, part: str | None
) -> None:
    assert goodput(Usd(Decimal(useful)), Usd(Decimal(paid))) == part
