from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.prices import Priced
from spotrun.money.savings import (
    UsefulWork,
    Waste,
    goodput,
    lost_work_usd,
    on_demand_usd,
    saved_usd,
)
from spotrun.money.units import Usd, UsdPerHour
from tests.unit.money.builders import prices_per_hour

seconds = st.decimals(min_value=0, max_value=10**6, places=6)
speeds = st.decimals(min_value=Decimal("0.01"), max_value=100, places=6)
useful_work = st.builds(UsefulWork, seconds, st.none() | prices_per_hour, st.none() | speeds)


def test_the_useful_work_on_demand() -> None:
    """Two hours on four nodes, then one hour on two."""
    work = [UsefulWork(Decimal(7200), UsdPerHour(4)), UsefulWork(Decimal(3600), UsdPerHour(2))]
    assert on_demand_usd(work) == Priced(Usd(10))


def test_faster_nodes_would_have_needed_less_time() -> None:
    assert on_demand_usd([UsefulWork(Decimal(3600), UsdPerHour(9), Decimal(3))]) == Priced(Usd(3))


@pytest.mark.parametrize(
    "unknown",
    [
        UsefulWork(Decimal(60), None),
        UsefulWork(Decimal(60), UsdPerHour(1), None),
        UsefulWork(Decimal(60), UsdPerHour(1), Decimal(0)),
    ],
)
def test_work_of_unknown_price_or_speed_is_said_to_be_missing(unknown: UsefulWork) -> None:
    known = UsefulWork(Decimal(3600), UsdPerHour(1))
    assert on_demand_usd([unknown, known]) == Priced(Usd(1), Decimal(60))


@given(st.lists(useful_work, max_size=5), st.decimals(0, 10**6, places=12).map(Usd))
def test_saved_and_paid_are_the_counterfactual(work: list[UsefulWork], paid: Usd) -> None:
    would_be = on_demand_usd(work).usd
    assert saved_usd(would_be, paid) + paid == would_be


def test_what_was_not_saved_is_shown_as_negative() -> None:
    assert str(saved_usd(Usd(10), Usd(Decimal("12.5")))) == "-$2.50"


def test_steps_done_twice_and_the_stall_are_lost() -> None:
    lost = lost_work_usd(
        redone_steps=30,
        step_seconds=Decimal("0.5"),
        stall_seconds=Decimal(45),
        rate=UsdPerHour(60),
    )
    assert lost == Usd(1)


def test_goodput_is_what_is_left_of_the_paid_time_and_the_rest_has_names() -> None:
    waste = Waste(
        waiting_seconds=Decimal(10),
        restart_seconds=Decimal(20),
        redone_seconds=Decimal(30),
        checkpoint_seconds=Decimal(40),
    )
    assert waste.seconds == Decimal(100)
    assert goodput(Decimal(1000), waste) == Decimal("0.9")
    assert goodput(Decimal(50), waste) == 0
    assert goodput(Decimal(0), waste) is None
