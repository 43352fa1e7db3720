"""The bytes of which files a process reads to get its part of a tensor: pure functions.

A checkpoint may have been written by processes that divided the model in another way than those who
read it: each tensor is there in parts (`Held`), each of them in slices in the data files of several
ranks, and a part that is wanted is put together from what it has in common with these.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spotrun_trainer.parallel.division import Box, Stretch, are_tiles, stretches


@dataclass(frozen=True)
class Source:
    """A slice of a part in a data file: elements [start, stop), from that byte on."""

    start: int
    stop: int
    rank: int  # of the data file
    offset: int


@dataclass(frozen=True)
class Held:
    """A part of a tensor that a checkpoint has, in slices that cover it, in their order."""

    box: Box
    sources: Sequence[Source]


@dataclass(frozen=True)
class Read:
    """A range of a data file, and where in the wanted part its bytes go."""

    rank: int
    offset: int
    bytes: int
    target: int


def plan_reads(wanted: Box, held: Iterable[Held], itemsize: int) -> list[Read]:
    """Return the ranges that give a part; raises ValueError if some of it is nowhere, or twice.

    A part that several processes hold is read from the first of them. Ranges that follow each
    other, in the file and in the part, are one.
    """
    reads: list[Read] = []
    sources = dict[Box, Sequence[Source]]()
    for one in held:
        sources.setdefault(one.box, one.sources)
    _check_tiles(wanted, [wanted.common(box) for box in sources])
    for box, slices in sources.items():
        for stretch in stretches(wanted, box):
            for read in _reads(stretch, slices, itemsize):
                if reads and _follows(read, reads[-1]):
                    reads.append(_both(reads.pop(), read))
                else:
                    reads.append(read)
    return reads


def _check_tiles(wanted: Box, found: Sequence[Box]) -> None:
    num_found = sum(box.numel for box in found)
    if num_found != wanted.numel:
        raise ValueError(f"{num_found} of {wanted.numel} elements are there")
    if not are_tiles(found, wanted):
        raise ValueError("some elements are there twice, and others not at all")


def _reads(stretch: Stretch, sources: Sequence[Source], itemsize: int) -> Iterable[Read]:
    first, last = stretch.source, stretch.source + stretch.count
    for source in sources:
        start, stop = max(first, source.start), min(last, source.stop)
        if start < stop:
            yield Read(
                source.rank,
                source.offset + (start - source.start) * itemsize,
                (stop - start) * itemsize,
                (stretch.start + start - first) * itemsize,
            )


def _follows(read: Read, before: Read) -> bool:
    return (read.rank, read.offset, read.target) == (
        before.rank,
        before.offset + before.bytes,
        before.target + before.bytes,
    )


def _both(before: Read, read: Read) -> Read:
    return Read(before.rank, before.offset, before.bytes + read.bytes, before.target)
