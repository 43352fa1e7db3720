"""What an own node costs: by hand, and whatever it is declared to cost."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.spec.own_nodes import OwnNodes
from spotrun.money.ownership.own_node import HOURS_PER_MONTH, OwnNode
from spotrun.money.units import Usd

PURCHASE = {"purchaseUsd": "35040", "years": "4"}  # a dollar for each hour of four years


@pytest.mark.parametrize(
    ("declared", "usd_per_hour"),
    [
        (PURCHASE, Fraction(1)),
        ({**PURCHASE, "years": "2"}, Fraction(2)),
        ({**PURCHASE, "powerKw": "10", "usdPerKwh": "0.2"}, Fraction(3)),
        ({**PURCHASE, "powerKw": "10", "usdPerKwh": "0.2", "pue": "1.5"}, Fraction(4)),
        ({**PURCHASE, "usdPerMonth": "1460"}, Fraction(3)),
        ({**PURCHASE, "usdPerMonth": "1460", "utilization": "0.75"}, Fraction(4)),
    ],
)
def test_the_price_of_an_hour(declared: dict[str, str], usd_per_hour: Fraction) -> None:
    node = OwnNode.of(OwnNodes.model_validate(declared))
    assert node.usd_per_hour.exact == usd_per_hour


def amounts(least: str, most: str) -> st.SearchStrategy[Fraction]:
    return st.fractions(min_value=Fraction(least), max_value=Fraction(most), max_denominator=1000)


NODES = st.builds(
    OwnNode,
    purchase=amounts("0.01", "1000000").map(Usd),
    years=amounts("0.5", "20"),
    running_per_month=amounts("0", "100000").map(Usd),
    utilization=amounts("0.01", "1"),
)


@given(NODES)
def test_the_hours_that_are_used_pay_for_all_of_its_years(node: OwnNode) -> None:
    used = node.years * 12 * HOURS_PER_MONTH * node.utilization
    paid = node.usd_per_hour.over(used * 3600)
    assert paid == node.purchase + node.running_per_month * (node.years * 12)
