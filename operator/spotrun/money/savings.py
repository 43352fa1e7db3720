"""Savings through spot, and the share of the money that bought progress."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from spotrun.api.field_types.amounts import Percent
from spotrun.money.units import Usd, UsdPerHour


def saved_usd(on_demand: Usd, paid: Usd) -> Usd:
    """Return the savings through spot; negative if it cost more than on-demand would have."""
    return on_demand - paid


@dataclass(frozen=True)
class LostWork:
    """The cost of an interruption."""

    redone: Usd  # steps done twice
    standstill: Usd

    @property
    def usd(self) -> Usd:
        """The sum of both."""
        return self.redone + self.standstill


def lost_work(
    *, redone_steps: int, step_seconds: Decimal, stall_seconds: Decimal, rate: UsdPerHour
) -> LostWork:
    """Return the cost of the steps done twice and of the stall, at the rate of that time."""
    return LostWork(rate.over(redone_steps * Fraction(step_seconds)), rate.over(stall_seconds))


def goodput(useful: Usd, paid: Usd) -> Percent | None:
    """Return the share of the money that bought durable steps, rounded down; None before any."""
    if not paid:
        return None
    return Percent(f"{min(int(100 * useful.exact / paid.exact), 100)}%")
