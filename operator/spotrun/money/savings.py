"""What spot saved, and where the money went that bought no progress."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction

from spotrun.money.prices import Priced
from spotrun.money.units import Usd, UsdPerHour


@dataclass(frozen=True)
class UsefulWork:
    """Durable work that was done at one size on one kind of node, and what it compares with."""

    seconds: Decimal  # that it took where it was done, redone steps and stalls not counted
    # Of all its workers together on the cheapest on-demand nodes that fit; None: unknown.
    on_demand: UsdPerHour | None
    relative_speed: Decimal | None = Decimal(1)  # of those nodes, in terms of these; None: unknown


def on_demand_usd(work: Iterable[UsefulWork]) -> Priced:
    """What the useful work would have cost on demand, where nothing is lost and done again.

    Work of unknown speed or price is not in the sum, and said to be missing.
    """
    total = Priced()
    for piece in work:
        if piece.on_demand is None or not piece.relative_speed:
            total += Priced(unpriced_seconds=piece.seconds)
        else:
            seconds = Fraction(piece.seconds) / Fraction(piece.relative_speed)
            total += Priced(piece.on_demand.over(seconds))
    return total


def saved_usd(on_demand: Usd, paid: Usd) -> Usd:
    """What spot saved; below zero where it cost more than it saved."""
    return on_demand - paid


@dataclass(frozen=True)
class Waste:
    """Time that was paid for and bought no durable step, by what it went into."""

    waiting_seconds: Decimal = Decimal(0)  # for peers
    restart_seconds: Decimal = Decimal(0)  # worlds being formed, processes starting
    redone_seconds: Decimal = Decimal(0)  # steps that had been done before
    checkpoint_seconds: Decimal = Decimal(0)  # training held up by saving

    @property
    def seconds(self) -> Decimal:
        """All of it."""
        return sum((getattr(self, part.name) for part in fields(self)), Decimal(0))


def lost_work_usd(
    *, redone_steps: int, step_seconds: Decimal, stall_seconds: Decimal, rate: UsdPerHour
) -> Usd:
    """What an interruption cost: the steps done twice and the stall, at the rate of that time."""
    return rate.over(redone_steps * Fraction(step_seconds) + Fraction(stall_seconds))


def goodput(paid_seconds: Decimal, waste: Waste) -> Decimal | None:
    """The part of the paid time that bought durable steps, from 0 to 1; None before any."""
    if paid_seconds <= 0:
        return None
    useful = max(paid_seconds - waste.seconds, Decimal(0))
    return useful / paid_seconds
