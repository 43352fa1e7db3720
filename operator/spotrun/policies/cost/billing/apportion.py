"""Sums divided into whole units, so that the parts add up to the sum."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction


def apportion(total: int, weights: Sequence[int | Decimal | Fraction]) -> list[int]:
    """Divide a whole number in proportion to weights, by the largest remainder.

    If all weights are zero, the first part gets all. Of equal remainders the earlier part comes
    first, so the result is the same in every pass.
    """
    exact = [max(Fraction(weight), Fraction(0)) for weight in weights]
    sum_of_weights = sum(exact)
    if not exact:
        raise ValueError("a sum cannot be divided into no parts")
    if not sum_of_weights:
        return [total, *[0] * (len(exact) - 1)]
    shares = [abs(total) * weight / sum_of_weights for weight in exact]
    parts = [int(share) for share in shares]
    by_remainder = sorted(range(len(parts)), key=lambda at: (parts[at] - shares[at], at))
    for at in by_remainder[: abs(total) - sum(parts)]:
        parts[at] += 1
    return [-part for part in parts] if total < 0 else parts


def rounded_together(amounts: Sequence[int], unit: int) -> list[int]:
    """Round amounts to whole units so that they add up to the rounded sum."""
    parts = [amount // unit for amount in amounts]
    whole = (2 * sum(amounts) + unit) // (2 * unit)
    by_remainder = sorted(range(len(amounts)), key=lambda at: (-(amounts[at] % unit), at))
    for at in by_remainder[: whole - sum(parts)]:
        parts[at] += 1
    return parts
