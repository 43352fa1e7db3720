"""What spot saved, and how much of the money bought progress."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from spotrun.api.field_types.amounts import Percent
from spotrun.money.units import Usd, UsdPerHour


def saved_usd(on_demand: Usd, paid: Usd) -> Usd:
    """What spot saved; below zero where it cost more than it saved."""
    return on_demand - paid


@dataclass(frozen=True)
class LostWork:
    """What an interruption cost."""

    redone: Usd  # steps done twice
    standstill: Usd

    @property
    def usd(self) -> Usd:
        """All of it."""
        return self.redone + self.standstill


def lost_work(
    *, redone_steps: int, step_seconds: Decimal, stall_seconds: Decimal, rate: UsdPerHour
) -> LostWork:
    """What the steps done twice and the stall cost, at the rate of that time."""
    return LostWork(rate.over(redone_steps * Fraction(step_seconds)), rate.over(stall_seconds))


def goodput(useful: Usd, paid: Usd) -> Percent | None:
    """The part of what was paid that bought durable steps, rounded down; None before any."""
    if not paid:
        return None
    return Percent(f"{min(int(100 * useful.exact / paid.exact), 100)}%")
