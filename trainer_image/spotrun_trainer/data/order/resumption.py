"""A step that continues in another world: pure functions of the sums that each process has.

A process that survives a loss keeps the sum of the microbatches that it has computed completely.
When the next world forms, all processes tell each other which these are. The microbatches that no
process holds are dealt again.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from spotrun_trainer.data.order.sharding import NOBODY, deal

_MOST_RANGES = 8  # each loss adds one, so a step seldom has three
ROW_SIZE = 2 + 2 * _MOST_RANGES

Range = tuple[int, int]
"""The first microbatch, and the one after the last."""


@dataclass(frozen=True)
class Held:
    """The microbatches of a step whose sum a process has, before the step continues."""

    microbatches: int = 0  # of the whole step, to compare sizes; 0: it holds nothing
    ranges: tuple[Range, ...] = ()
    buckets: int = 0
    """The number of gradient buckets, from the first in their common order, that have the step's
    whole sum: the world broke after these were summed over all processes."""

    @property
    def numbers(self) -> list[int]:
        """The microbatches."""
        return [number for first, end in self.ranges for number in range(first, end)]


NOTHING_HELD = Held()


@dataclass(frozen=True)
class Resumption:
    """One process's part of a step that continues."""

    computes: tuple[int, ...]  # microbatches
    keeps: bool  # whether its held sums count; if not, they are dropped
    buckets: int = 0  # buckets whose whole sum for the step some process has
    gives: bool = False  # this process adds these sums, and the others add zeros


def ranges_of(numbers: Iterable[int]) -> tuple[Range, ...]:
    """Return the ranges that some numbers make up."""
    found: list[Range] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return tuple(found)


def encode(held: Held) -> tuple[int, ...]:
    """Return the numbers for one row of a table; those of NOTHING_HELD if they do not fit."""
    if len(held.ranges) > _MOST_RANGES:
        held = NOTHING_HELD
    flat = [number for one in held.ranges for number in one]
    return (held.microbatches, held.buckets, *flat, *[0] * (ROW_SIZE - 2 - len(flat)))


def decode(row: Sequence[int]) -> Held:
    """Return what `encode` was given."""
    microbatches, buckets, *flat = row
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return Held(microbatches, tuple((first, end) for first, end in pairs if first < end), buckets)


def resume(
    held: Sequence[Held], microbatches: int, rank: int, idle: AbstractSet[int] = NOBODY
) -> Resumption | None:
    """Return this process's part of the step; None if nothing is held, so the step starts again.

    Each microbatch is held by one process, or computed by one. Two may hold the same one, if a
    process that was given up comes back: then the sum with more microbatches counts.
    """
    if not held:
        return None
    counted = _counted(held, microbatches)
    if not counted:
        return None
    there = {number for each in counted for number in held[each].numbers}
    missing = [number for number in range(microbatches) if number not in there]
    own = deal(len(missing), len(held), rank, idle)
    buckets = max(held[each].buckets for each in counted)
    giver = min(each for each in counted if held[each].buckets == buckets)
    return Resumption(
        computes=tuple(missing[own.start : own.stop]),
        keeps=rank in counted,
        buckets=buckets,
        gives=rank == giver,
    )


def _counted(held: Sequence[Held], microbatches: int) -> set[int]:
    """Return the ranks whose sums count: no two of them have a microbatch in common."""
    counted, there = set[int](), set[int]()
    for rank in sorted(range(len(held)), key=lambda one: -len(held[one].numbers)):
        numbers = set(held[rank].numbers)
        fits = held[rank].microbatches == microbatches
        if numbers and fits and there.isdisjoint(numbers):
            counted.add(rank)
            there |= numbers
    return counted
