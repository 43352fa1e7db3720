"""Rented, reserved and own nodes over months: by hand, and whatever they cost."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.ownership.comparison import (
    Crossing,
    Offer,
    Owned,
    Rented,
    Reserved,
    Span,
    Use,
    cheapest,
    crossings,
    hours_to_pay_off,
)
from spotrun.money.ownership.own_node import HOURS_PER_MONTH, OwnNode
from spotrun.money.units import Usd, UsdPerHour
from tests.unit.money.ownership.test_own_node import NODES, amounts

SPOT = Rented("spot", UsdPerHour(2), lost_share=Fraction(1, 5))  # 2.50 for an hour that counts
ON_DEMAND = Rented("on demand", UsdPerHour(4))
ONE_YEAR = Reserved("1 year", UsdPerHour(2), 1)
NODE = OwnNode(Usd(24_000), Fraction(2), Usd(365), Fraction(1, 2))
OWN = Owned("own", NODE)
USE = Use(Fraction(730))  # one node at all hours, or two own ones at half of them


@pytest.mark.parametrize(
    ("offer", "nodes", "totals"),
    [
        (ON_DEMAND, None, {1: 2_920, 12: 35_040, 25: 73_000}),
        (SPOT, None, {1: 1_825, 12: 21_900, 25: 45_625}),
        # A term is owed to its end, and begins anew.
        (ONE_YEAR, 1, {1: 17_520, 12: 17_520, 13: 35_040, 25: 52_560}),
        # Two nodes, bought again after two years.
        (OWN, 2, {1: 48_730, 12: 56_760, 24: 65_520, 25: 114_250}),
    ],
)
def test_what_months_have_cost(offer: Offer, nodes: int | None, totals: dict[int, int]) -> None:
    assert offer.nodes(USE) == nodes
    assert {n: offer.total(USE, n) for n in totals} == {n: Usd(usd) for n, usd in totals.items()}


@pytest.mark.parametrize(
    ("use", "nodes"),
    [
        (Use(Fraction(365)), 1),
        (Use(Fraction(366)), 2),
        (Use(Fraction(365), open_share=Fraction(1, 2)), 2),  # nodes that are used at night only
        (Use(Fraction(1)), 1),
    ],
)
def test_how_many_own_nodes_hold_a_use(use: Use, nodes: int) -> None:
    assert OWN.nodes(use) == nodes


def test_where_curves_cross() -> None:
    offers = (SPOT, ON_DEMAND, ONE_YEAR, OWN)
    assert cheapest(offers, USE, 24) == [
        Span("spot", 1, 9),
        Span("1 year", 10, 12),
        Span("spot", 13, 19),  # another year is owed
        Span("1 year", 20, 24),
    ]
    assert list(crossings(offers, USE, 24)) == [
        Crossing("1 year", "spot", 20),  # and not 10, for it did not stay so
        Crossing("1 year", "on demand", 6),
        Crossing("own", "spot", None),
        Crossing("own", "on demand", 22),
    ]


def test_of_what_costs_the_same_the_first_is_cheapest() -> None:
    assert cheapest((ON_DEMAND, Rented("other", UsdPerHour(4))), USE, 3) == [
        Span("on demand", 1, 3)
    ]


@pytest.mark.parametrize(
    ("rented", "open_share", "hours"),
    [
        (ON_DEMAND, Fraction(1), Fraction(1365, 4)),
        (ON_DEMAND, Fraction(9, 10), None),  # 328.5 hours of a node can be used
        (SPOT, Fraction(1), None),
        (Rented("free", UsdPerHour(0)), Fraction(1), None),
    ],
)
def test_the_hours_from_which_an_own_node_is_cheaper(
    rented: Rented, open_share: Fraction, hours: Fraction | None
) -> None:
    assert hours_to_pay_off(NODE, rented, open_share) == hours


USES = st.builds(Use, amounts("0.1", "100000"), amounts("0.01", "1"))
PRICES = amounts("0.01", "1000").map(UsdPerHour)
OFFERS = st.one_of(
    st.builds(Rented, st.just("rented"), PRICES, amounts("0", "0.9")),
    st.builds(Reserved, st.just("reserved"), PRICES, st.sampled_from([1, 3]), amounts("0.01", "1")),
    st.builds(Owned, st.just("own"), NODES),
)


@given(OFFERS, USES, st.integers(1, 100))
def test_more_months_never_cost_less(offer: Offer, use: Use, months: int) -> None:
    assert offer.total(use, months) <= offer.total(use, months + 1)


@given(NODES.filter(lambda node: (node.years * 12).denominator == 1), st.integers(1, 50))
def test_full_own_nodes_cost_over_their_years_what_jobs_are_billed(node: OwnNode, n: int) -> None:
    months = int(node.years * 12)
    use = Use(n * HOURS_PER_MONTH * node.utilization)
    billed = Rented("billed", node.usd_per_hour)
    assert Owned("own", node).total(use, months) == billed.total(use, months)


@given(st.lists(OFFERS, min_size=1, max_size=4), USES, st.integers(1, 60))
def test_at_each_length_one_offer_is_named_and_none_is_cheaper(
    offers: list[Offer], use: Use, months: int
) -> None:
    named = {f"{n}": offer for n, offer in enumerate(offers)}
    renamed = [_Renamed(name, offer) for name, offer in named.items()]
    spans = cheapest(renamed, use, months)
    assert [m for span in spans for m in range(span.first, span.last + 1)] == [
        *range(1, months + 1)
    ]
    for span in spans:
        for month in {span.first, span.last}:
            least = min(offer.total(use, month) for offer in offers)
            assert named[span.name].total(use, month) == least


@given(OFFERS, PRICES, USES, st.integers(1, 60))
def test_what_has_paid_off_stays_so_to_the_end(
    offer: Offer, price: UsdPerHour, use: Use, months: int
) -> None:
    rented = Rented("rented", price)
    for found in crossings((rented, offer), use, months):
        first = found.month if found.month is not None else months + 1
        totals = [(offer.total(use, n), rented.total(use, n)) for n in range(first, months + 1)]
        assert all(one <= other for one, other in totals)
        if first > 1:
            assert offer.total(use, first - 1) > rented.total(use, first - 1)


class _Renamed:
    """An offer under another name."""

    def __init__(self, name: str, offer: Offer) -> None:
        self.name, self._offer = name, offer
        self.price = offer.price

    def nodes(self, use: Use) -> int | None:
        return self._offer.nodes(use)

    def total(self, use: Use, months: int) -> Usd:
        return self._offer.total(use, months)
