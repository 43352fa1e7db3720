"""The bytes of files that a process reads to get its part of a tensor: pure functions.

A checkpoint may have been written by processes that divided the model in another way than those
that read it: it has each tensor in parts (`Held`), each of them in slices in the data files of
several ranks, and a wanted part is assembled from its overlaps with these.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spotrun_trainer.parallel.division import Box, Stretch, are_tiles, stretches

SMALL_GAP_BYTES = 16 << 10
"""Between two ranges: reading this many bytes takes as long as another call."""


@dataclass(frozen=True)
class Source:
    """A slice of a part in a data file: elements [start, stop), beginning at a byte offset."""

    start: int
    stop: int
    rank: int  # of the data file
    offset: int


@dataclass(frozen=True)
class Held:
    """A part of a tensor in a checkpoint, with the slices that cover it, in their order."""

    box: Box
    sources: Sequence[Source]


@dataclass(frozen=True)
class Read:
    """One or more ranges of equal size in a data file, and their places in the wanted part."""

    rank: int
    offset: int  # of the first
    bytes: int  # of each
    target: int
    rows: int = 1  # ranges
    step: int = 0  # bytes from one range to the next, in the file
    target_step: int = 0


def plan_reads(wanted: Box, held: Iterable[Held], itemsize: int) -> list[Read]:
    """Return the ranges that give a part; raises ValueError for missing or repeated elements.

    A part that several processes hold is read from the first of them. Ranges that follow each
    other, in the file and in the part, are merged.
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


def extents(reads: Iterable[Read]) -> list[tuple[int, int]]:
    """Return the ranges of a file that reads touch, in file order; small gaps are included."""
    found = list[tuple[int, int]]()
    for read in reads:
        if read.rows == 1 or read.step - read.bytes <= SMALL_GAP_BYTES:
            length = (read.rows - 1) * read.step + read.bytes
            found.append((read.offset, read.offset + length))
        else:
            starts = range(read.offset, read.offset + read.rows * read.step, read.step)
            found += [(start, start + read.bytes) for start in starts]
    return found


def _check_tiles(wanted: Box, found: Sequence[Box]) -> None:
    num_found = sum(box.numel for box in found)
    if num_found != wanted.numel:
        raise ValueError(f"only {num_found} of {wanted.numel} elements were found")
    if not are_tiles(found, wanted):
        raise ValueError("some elements were found twice, and others not at all")


def _reads(stretch: Stretch, sources: Sequence[Source], itemsize: int) -> Iterable[Read]:
    for source in sources:
        first, last = _rows_in(stretch, source)
        begin, end = first, last
        if first < last and stretch.source + first * stretch.source_step < source.start:
            yield _cut_row(stretch, first, source, itemsize)
            begin += 1
        end_of_last = stretch.source + (last - 1) * stretch.source_step + stretch.count
        if begin < last and end_of_last > source.stop:
            end -= 1
        if begin < end:
            yield _whole_rows(stretch, begin, end, source, itemsize)
        if begin <= end < last:
            yield _cut_row(stretch, end, source, itemsize)


def _rows_in(stretch: Stretch, source: Source) -> tuple[int, int]:
    """Return which rows have elements in a slice: the first row, and the row after the last."""
    step = stretch.source_step or stretch.count
    first = (source.start - stretch.count - stretch.source) // step + 1
    last = -(-(source.stop - stretch.source) // step)
    return max(0, first), min(stretch.rows, last)


def _whole_rows(stretch: Stretch, begin: int, end: int, source: Source, itemsize: int) -> Read:
    at = stretch.source + begin * stretch.source_step - source.start
    read = Read(
        source.rank,
        source.offset + at * itemsize,
        stretch.count * itemsize,
        (stretch.start + begin * stretch.step) * itemsize,
    )
    if end - begin == 1:
        return read
    steps = (stretch.source_step * itemsize, stretch.step * itemsize)
    return replace(read, rows=end - begin, step=steps[0], target_step=steps[1])


def _cut_row(stretch: Stretch, row: int, source: Source, itemsize: int) -> Read:
    """Return what a slice has of a row that begins before it, or ends after it."""
    at = stretch.source + row * stretch.source_step
    start, stop = max(at, source.start), min(at + stretch.count, source.stop)
    return Read(
        source.rank,
        source.offset + (start - source.start) * itemsize,
        (stop - start) * itemsize,
        (stretch.start + row * stretch.step + start - at) * itemsize,
    )


def _follows(read: Read, before: Read) -> bool:
    is_single = read.rows == before.rows == 1
    return is_single and (read.rank, read.offset, read.target) == (
        before.rank,
        before.offset + before.bytes,
        before.target + before.bytes,
    )


def _both(before: Read, read: Read) -> Read:
    return Read(before.rank, before.offset, before.bytes + read.bytes, before.target)
