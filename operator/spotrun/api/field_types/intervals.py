"""Lists of numbers as text: `0-41,43`, and a shorter form for long lists.

The largest job has 10,000 workers. Once most of the numbers that it ever gave out are settled, the
other numbers are not successive and have six digits each. The distance of each number from the one
before needs less than half of these digits.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from typing_extensions import override

Interval = tuple[int, int]
"""The first and the last number."""

_LONG = 1024
"""Up to this length the numbers themselves are written, for people; nobody reads longer lists."""


@dataclass(frozen=True)
class Ranges:
    """A set of numbers, perhaps millions, stored only as intervals."""

    intervals: tuple[Interval, ...] = ()  # ascending, and none touches the next one

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Self:
        """Create a set from intervals in any order, which may overlap."""
        found: list[Interval] = []
        for first, last in sorted(intervals):
            if found and first <= found[-1][1] + 1:
                found[-1] = found[-1][0], max(found[-1][1], last)
            elif first <= last:
                found.append((first, last))
        return cls(tuple(found))

    @cached_property
    def _firsts(self) -> list[int]:
        return [first for first, _ in self.intervals]

    @cached_property
    def size(self) -> int:
        """The count of its numbers."""
        return sum(last - first + 1 for first, last in self.intervals)

    @property
    def end(self) -> int:
        """The number after the last one; 0 if there is none."""
        return self.intervals[-1][1] + 1 if self.intervals else 0

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._firsts, number) - 1
        return index >= 0 and number <= self.intervals[index][1]

    def union(self, numbers: Iterable[int]) -> Self:
        """Add numbers."""
        return self.of((*self.intervals, *((number, number) for number in numbers)))

    @override
    def __str__(self) -> str:
        """Write the numbers as in a status."""
        return write_intervals(self.intervals)

    def missing(self, end: int) -> Iterator[int]:
        """Return the numbers below `end` that are not in it, ascending."""
        begin = 0
        for first, last in self.intervals:
            yield from range(begin, min(first, end))
            begin = last + 1
        yield from range(begin, end)


NO_NUMBERS = Ranges()


def runs_of(numbers: Iterable[int]) -> Iterator[Interval]:
    """Join successive numbers to intervals, in the order given."""
    first = last = -2
    for number in numbers:
        if number != last + 1:
            if last >= 0:
                yield first, last
            first = number
        last = number
    if last >= 0:
        yield first, last


def read_intervals(text: str) -> tuple[Interval, ...]:
    """Read either form."""
    if text.startswith("+"):
        return tuple(_counted_from_the_one_before(text[1:]))
    parts = (part.partition("-") for part in text.split(",")) if text else ()
    return tuple((int(first), int(last or first)) for first, _, last in parts)


def write_intervals(intervals: Sequence[Interval]) -> str:
    """Write the numbers; for a long list the distances between them, if these are shorter."""
    plain = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in intervals)
    return plain if len(plain) <= _LONG else min(plain, _in_distances(intervals), key=len)


def _counted_from_the_one_before(text: str) -> Iterator[Interval]:
    last = 0
    for part in text.split(","):
        if "-" not in part:
            first = last = last + int(part)
        else:
            is_back = part[0] == "-"
            distance, _, length = part[is_back:].partition("-")
            first = last - int(distance) if is_back else last + int(distance)
            last = first + int(length or 0)
        yield first, last


def _in_distances(intervals: Iterable[Interval]) -> str:
    parts, before = [], 0
    for first, last in intervals:
        length = f"-{last - first}" if last > first else ""
        parts.append(f"{first - before}{length}")
        before = last
    return "+" + ",".join(parts)
