"""Rented, reserved and own nodes over months of the same use, and where their costs cross.

Use is counted in node-hours of useful work per month. An offer returns its total cost after a
number of months. All amounts are exact, so two offers are equal in the month where they meet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Protocol

from spotrun.money.ownership.own_node import HOURS_PER_MONTH, MONTHS_PER_YEAR, OwnNode
from spotrun.money.units import Usd, UsdPerHour


@dataclass(frozen=True)
class Use:
    """The use of nodes that must be paid for."""

    hours_per_month: Fraction  # node-hours of useful work
    open_share: Fraction = Fraction(1)  # of all hours, those in which jobs may run

    def nodes(self, utilization: Fraction) -> int:
        """Return how many nodes that are paid for all hours are enough for it."""
        return ceil(self.hours_per_month / (HOURS_PER_MONTH * self.open_share * utilization))


class Offer(Protocol):
    """A way to get nodes."""

    @property
    def name(self) -> str:
        """The name that people read."""
        ...

    @property
    def price(self) -> UsdPerHour:
        """The price of a node-hour, as declared or as on the bill of a job."""
        ...

    def nodes(self, use: Use) -> int | None:
        """Return how many nodes are paid for all hours; None: only used hours are paid for."""
        ...

    def total(self, use: Use, months: int) -> Usd:
        """Return the total cost of this number of months."""
        ...


@dataclass(frozen=True)
class Rented:
    """Nodes by the hour, spot or on demand."""

    name: str
    price: UsdPerHour
    lost_share: Fraction = Fraction(0)  # the share of the paid hours whose work was lost

    def nodes(self, _: Use) -> int | None:
        """Return None: only hours in which a node runs are paid for."""
        return None

    @property
    def per_useful_hour(self) -> UsdPerHour:
        """The price of an hour of work that is kept."""
        return UsdPerHour(self.price.exact / (1 - self.lost_share))

    def total(self, use: Use, months: int) -> Usd:
        """Return the hours times their price, including the hours whose work was lost."""
        return Usd(self.per_useful_hour.exact * use.hours_per_month * months)


@dataclass(frozen=True)
class Reserved:
    """Nodes that are paid for all hours of a term; after a term the next one begins."""

    name: str
    price: UsdPerHour
    years: int
    utilization: Fraction = Fraction(1)

    def nodes(self, use: Use) -> int | None:
        """Return the nodes that hold the use."""
        return use.nodes(self.utilization)

    def total(self, use: Use, months: int) -> Usd:
        """Return the cost of all terms that have begun: each is paid to its end."""
        term = self.years * MONTHS_PER_YEAR
        owed = ceil(Fraction(months, term)) * term
        return Usd(self.price.exact * HOURS_PER_MONTH * owed * use.nodes(self.utilization))


@dataclass(frozen=True)
class Owned:
    """Nodes that are bought, and bought again at the end of their years of use."""

    name: str
    node: OwnNode

    @property
    def price(self) -> UsdPerHour:
        """The price at which jobs are billed for it."""
        return self.node.usd_per_hour

    def nodes(self, use: Use) -> int | None:
        """Return the nodes that hold the use."""
        return use.nodes(self.node.utilization)

    def total(self, use: Use, months: int) -> Usd:
        """Return the cost of the purchases so far and of running the nodes."""
        bought = ceil(months / (self.node.years * MONTHS_PER_YEAR))
        each = self.node.purchase * bought + self.node.running_per_month * months
        return each * use.nodes(self.node.utilization)


@dataclass(frozen=True)
class Span:
    """A range of lengths of use, in months, for which one offer costs least."""

    name: str
    first: int
    last: int


def cheapest(offers: Sequence[Offer], use: Use, months: int) -> list[Span]:
    """Return which offer costs least for each length of use; of equal ones the first."""
    spans: list[Span] = []
    for month in range(1, months + 1):
        name = min(offers, key=lambda offer: offer.total(use, month)).name
        if spans and spans[-1].name == name:
            spans[-1] = Span(name, spans[-1].first, month)
        else:
            spans.append(Span(name, month, month))
    return spans


@dataclass(frozen=True)
class Crossing:
    """The month from which one offer costs no more than another; None: in none of the months."""

    name: str
    than: str
    month: int | None


def crossings(offers: Sequence[Offer], use: Use, months: int) -> Iterator[Crossing]:
    """Yield, for each offer paid for all hours and each one by the hour, when the first pays off.

    From that month to the last one it costs no more than the other.
    """
    by_hour = [offer for offer in offers if offer.nodes(use) is None]
    for offer in offers:
        if offer.nodes(use) is not None:
            for other in by_hour:
                yield Crossing(offer.name, other.name, _paid_off(offer, other, use, months))


def _paid_off(offer: Offer, other: Offer, use: Use, months: int) -> int | None:
    month = months
    while month > 0 and offer.total(use, month) <= other.total(use, month):
        month -= 1
    return month + 1 if month < months else None


def hours_to_pay_off(node: OwnNode, rented: Rented, open_share: Fraction) -> Fraction | None:
    """Return the useful hours per month from which an own node is cheaper over its years of use.

    None if it is not cheaper even with all hours in which jobs may run and its utilization allows.
    """
    if not rented.per_useful_hour:
        return None
    hours = node.per_month.exact / rented.per_useful_hour.exact
    return hours if hours <= HOURS_PER_MONTH * open_share * node.utilization else None
