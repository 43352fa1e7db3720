"""Sets of worker numbers, read from the compact text that a status holds."""

from spotrun.api.field_types.intervals import NO_NUMBERS, Ranges
from spotrun.api.field_types.text_values import Intervals, Serials


def ordered(serials: Serials | None) -> tuple[int, ...]:
    """Return the numbers in the order written; none where there is nothing."""
    return serials.numbers if serials is not None else ()


def numbers(serials: Serials | None) -> frozenset[int]:
    """Return the numbers as a set."""
    return serials.set if serials is not None else frozenset()


def ranges(settled: Intervals | None) -> Ranges:
    """Return the numbers as a set that may be of millions."""
    return settled.ranges if settled is not None else NO_NUMBERS
