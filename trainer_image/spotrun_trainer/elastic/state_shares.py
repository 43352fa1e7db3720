"""The shares of several processes in sending one state: a pure function of its messages' sizes.

The messages lie end to end, and each process sends a stretch of the same number of bytes. So a
large tensor is sent by several, and no process sends more than the others, except for one element.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True)
class Size:
    """The size of a message."""

    numel: int
    itemsize: int  # bytes of an element

    @property
    def num_bytes(self) -> int:
        """The size in bytes."""
        return self.numel * self.itemsize


@dataclass(frozen=True)
class Range:
    """A stretch of a message, in elements."""

    message: int
    start: int
    stop: int


def share_out(sizes: Sequence[Size], sources: int) -> list[list[Range]]:
    """Return the ranges that each of `sources` processes sends, in the order of the messages."""
    begins = list(accumulate((size.num_bytes for size in sizes), initial=0))
    cuts = [begins[-1] * place // sources for place in range(sources + 1)]
    return [
        [
            Range(message, *bounds)
            for message, size in enumerate(sizes)
            if (bounds := _bounds(size, first - begins[message], last - begins[message]))
        ]
        for first, last in pairwise(cuts)
    ]


def numbers_from_outside(mate: int, sources: int) -> range:
    """Return the numbers of the shares that one of several mates gets from `sources` processes.

    The mates get the others' shares from these, so there are `mates * sources` shares in all.
    """
    return range(mate * sources, (mate + 1) * sources)


def _bounds(size: Size, first: int, last: int) -> tuple[int, int] | None:
    """Return the elements that begin between two bytes of a message, or None if there are none."""
    start, stop = (min(max(-(-at // size.itemsize), 0), size.numel) for at in (first, last))
    return (start, stop) if start < stop else None
