"""A forecast of a job's cost at its end, from the cost of its recent steps.

It uses money per durable step, not money per hour: while a job is suspended, or outside its
windows, it neither spends nor advances, so such hours change nothing. Lost steps were paid for but
are not durable. They make the other steps more expensive, as future losses will.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from spotrun.money.units import NO_USD, Usd


@dataclass(frozen=True)
class Mark:
    """The steps of a job at some time, and its cost by then; steps may be lost afterwards."""

    steps: int
    usd: Usd


@dataclass(frozen=True)
class Forecast:
    """The cost at the end: expected, and if all goes as well or as badly as at recent times."""

    usd: Usd
    low: Usd
    high: Usd


def forecast(accrued: Usd, remaining_steps: int, marks: Sequence[Mark]) -> Forecast | None:
    """Return the cost at the end; None while no durable step has been seen in the window.

    `marks` is the recent window, oldest first; `remaining_steps` count from the last mark. The
    range comes from the stretches between marks: as if all steps cost as little as in the cheapest
    stretch, or as much as in the most expensive one.
    """
    stretches = list(_stretches(marks))
    if not stretches:
        return None
    steps = sum(gained.steps for gained in stretches)
    spent = sum((gained.usd for gained in stretches), NO_USD)
    prices = [gained.usd.exact / gained.steps for gained in stretches]
    prepaid = _prepaid(accrued, stretches, marks[-1])

    def at_the_end(usd_per_step: Fraction) -> Usd:
        return accrued + max(Usd(usd_per_step * remaining_steps) - prepaid, NO_USD)

    return Forecast(
        usd=at_the_end(spent.exact / steps),
        low=at_the_end(min(prices)),
        high=at_the_end(max(prices)),
    )


def usd_per(usd: Usd, done: int | Fraction, unit: int = 1) -> Usd | None:
    """Return the cost of a unit of work: a step, an epoch, a million samples; None before any."""
    return usd * (unit / Fraction(done)) if done else None


@dataclass(frozen=True)
class _Stretch:
    steps: int  # gained
    usd: Usd  # its cost, including stalls and lost steps
    end: Mark


def _stretches(marks: Sequence[Mark]) -> Iterator[_Stretch]:
    since = marks[0] if marks else None
    for mark in marks:
        if since is not None and mark.steps > since.steps:
            yield _Stretch(mark.steps - since.steps, mark.usd - since.usd, mark)
            since = mark


def _prepaid(accrued: Usd, stretches: Sequence[_Stretch], last: Mark) -> Usd:
    """Return the money spent on steps that are done and still count as remaining.

    It is the money spent since the last mark with new steps, but at most the cost of a usual
    stretch: the rest bought no step. If steps were lost since then, it bought none at all. If the
    cost now is found to be less than at that mark, the result is zero.
    """
    if last.steps < stretches[-1].end.steps:
        return NO_USD
    usual = sum((stretch.usd.exact for stretch in stretches), Fraction()) / len(stretches)
    return max(min(accrued - stretches[-1].end.usd, Usd(usual)), NO_USD)
