"""The price of a node that you own: purchase, power and staff, spread over the hours of use."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Self

from spotrun.api.spec.own_nodes import OwnNodes
from spotrun.money.units import Usd, UsdPerHour

HOURS_PER_YEAR = 8760
MONTHS_PER_YEAR = 12
HOURS_PER_MONTH = Fraction(HOURS_PER_YEAR, MONTHS_PER_YEAR)
SOURCE = "ownNodes of the CapacityPool"


@dataclass(frozen=True)
class OwnNode:
    """The costs of one node to its owner."""

    purchase: Usd
    years: Fraction
    running_per_month: Usd  # power, staff and hosting, busy or not
    utilization: Fraction = Fraction(1)  # of all hours, those in which jobs use it

    @classmethod
    def of(cls, spec: OwnNodes) -> Self:
        """Read the costs in a CapacityPool."""
        kw, usd_per_kwh = spec.power_kw, spec.usd_per_kwh
        power = Usd()
        if kw is not None and usd_per_kwh is not None:
            hourly = Fraction(kw.decimal) * Fraction(usd_per_kwh.decimal) * _exact(spec.pue)
            power = Usd(hourly * HOURS_PER_MONTH)
        return cls(
            purchase=Usd.of(spec.purchase_usd),
            years=_exact(spec.years),
            running_per_month=power + Usd.of(spec.usd_per_month),
            utilization=_exact(spec.utilization),
        )

    @property
    def per_month(self) -> Usd:
        """The cost of a month of use, including its part of the purchase price."""
        return self.running_per_month + Usd(self.purchase.exact / (self.years * MONTHS_PER_YEAR))

    @property
    def usd_per_hour(self) -> UsdPerHour:
        """The price of an hour in which a job uses it; the used hours also pay for the others."""
        return UsdPerHour(self.per_month.exact / (HOURS_PER_MONTH * self.utilization))


def _exact(amount: str) -> Fraction:
    return Fraction(Decimal(amount))
