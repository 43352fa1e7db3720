"""What spot saved, and how much of the money bought progress."""

from decimal import Decimal
from fractions import Fraction

from spotrun.api.amounts import Percent
from spotrun.money.units import Usd, UsdPerHour


def saved_usd(on_demand: Usd, paid: Usd) -> Usd:
    """What spot saved; below zero where it cost more than it saved."""
    return on_demand - paid


def lost_work_usd(
    *, redone_steps: int, step_seconds: Decimal, stall_seconds: Decimal, rate: UsdPerHour
) -> Usd:
    """What an interruption cost: the steps done twice and the stall, at the rate of that time."""
    return rate.over(redone_steps * Fraction(step_seconds) + Fraction(stall_seconds))


def goodput(useful: Usd, paid: Usd) -> Percent | None:
    """The part of what was paid that bought durable steps, rounded down; None before any."""
    if not paid:
        return None
    return Percent(f"{min(int(100 * useful.exact / paid.exact), 100)}%")
