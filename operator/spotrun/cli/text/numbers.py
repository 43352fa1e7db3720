"""Numbers on command lines: read exactly, and refused with the range that is allowed.

Standard library only: `--help` needs no other.
"""

import argparse
from decimal import Decimal, InvalidOperation
from math import inf

MOST_PROFILED = 200
"""The same as `spotrun.wire.MOST_PROFILED_STEPS`, without its import."""


def hours(text: str) -> float:
    """Read a time in hours, above 0."""
    return _number(text, "hours", least=0.001, most=100_000)


def minutes(text: str) -> float:
    """Read a time in minutes, 0 included."""
    return _number(text, "minutes", least=0, most=100_000)


def share(text: str) -> float:
    """Read a share of a whole."""
    return _number(text, "a share", least=0, most=1)


def usd_per_hour(text: str) -> Decimal:
    """Read a price, to the digit that was typed."""
    _number(text, "USD per hour", least=0, most=1_000_000)
    return Decimal(text)


def usd(text: str) -> Decimal:
    """Read an amount above 0, to the digit that was typed."""
    _number(text, "an amount in USD", least=0.01, most=1_000_000_000)
    return Decimal(text)


def part_of_100(text: str) -> Decimal:
    """Read a percentage below 100."""
    if _number(text, "a percentage", least=0, most=100) == 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage below 100")
    return Decimal(text)


def gigabytes(text: str) -> float:
    """Read a size in gigabytes of 2^30 bytes, above 0."""
    return _number(text, "gigabytes", least=0.001, most=1_000_000)


def count(text: str) -> int:
    """Read a whole number from 1 on."""
    return int(_number(text, "a whole number", least=1, most=10_000_000, is_whole=True))


def whole(text: str) -> int:
    """Read a whole number from 0 on."""
    return int(_number(text, "a whole number", least=0, most=10_000_000, is_whole=True))


def profiled_steps(text: str) -> int:
    """Read a number of steps to profile."""
    return int(_number(text, "a number of steps", least=1, most=MOST_PROFILED, is_whole=True))


def _number(text: str, what: str, *, least: float, most: float, is_whole: bool = False) -> float:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal(inf)
    is_right = number.is_finite() and (number == number.to_integral_value() or not is_whole)
    if not is_right or not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what} from {least:g} to {most:.0f}")
    return float(number)
