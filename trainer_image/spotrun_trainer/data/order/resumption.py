"""A step that goes on in another world: pure functions of what each process has summed of it.

A process that survives a loss keeps the sum of the microbatches that it has computed whole. When
the next world forms, all tell each other which these are. What nobody holds is dealt anew.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from spotrun_trainer.data.order.sharding import NOBODY, deal

_MOST_RANGES = 8  # a loss makes one more of them, so a step seldom has three
ROW_SIZE = 2 + 2 * _MOST_RANGES

Range = tuple[int, int]
"""The first microbatch, and the one after the last."""


@dataclass(frozen=True)
class Held:
    """The microbatches of a step of which a process has the sum, before the step goes on."""

    microbatches: int = 0  # of the whole step, by which sizes are compared; 0: it holds nothing
    ranges: tuple[Range, ...] = ()
    buckets: int = 0
    """Buckets of gradients, the first in their common order, that it has as the step's whole sum:
    the world broke after these were summed over all processes."""

    @property
    def numbers(self) -> list[int]:
        """The microbatches."""
        return [number for first, end in self.ranges for number in range(first, end)]


NOTHING_HELD = Held()


@dataclass(frozen=True)
class Resumption:
    """One process's part of a step that goes on."""

    computes: tuple[int, ...]  # microbatches
    keeps: bool  # what it holds counts; else it is dropped
    buckets: int = 0  # of which some process has the step's whole sum
    gives: bool = False  # it is this process that adds these, and the others add zeros


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
    """Return numbers for one row of a table; nothing is held where they do not fit into it."""
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
    """Return this process's part of the step; None if the step begins anew, for nothing is held.

    Each microbatch is held by one process, or computed by one. Two may hold the same one, where a
    process that was given up comes back: then the sum counts that has more of them.
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
