"""Named tensors that can be read range by range, independent of where they are kept."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from torch import Tensor

from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import DTYPES, Spec

PIECE_BYTES = 8 << 20
"""The most bytes of a tensor in memory: large enough that the cost of calls does not matter."""


class Source(Protocol):
    """Whole tensors by name, independent of how they are divided where they are kept."""

    @property
    def specs(self) -> Mapping[str, Spec]:
        """The types and shapes of all tensors, in their order."""

    def fill(self, name: str, box: Box, target: Tensor) -> None:
        """Read a part of a tensor into a tensor of the part's shape, and of the same type."""


def pieces(shape: tuple[int, ...], itemsize: int, most_bytes: int = PIECE_BYTES) -> Iterator[Box]:
    """Yield boxes of at most `most_bytes` that make up a tensor, in row-major order.

    Each has consecutive elements, so they can be written one after the other.
    """
    yield from _pieces(Box.whole(shape), 0, max(1, most_bytes // itemsize))


def _pieces(box: Box, dim: int, most: int) -> Iterator[Box]:
    if box.numel <= most:
        yield box
        return
    length = box.shape[dim]
    rows = most // (box.numel // length)
    for start in range(0, length, max(1, rows)):
        some = _rows(box, dim, start, min(max(1, rows), length - start))
        if rows:
            yield some
        else:  # one row alone is too large
            yield from _pieces(some, dim + 1, most)


def _rows(box: Box, dim: int, start: int, count: int) -> Box:
    offsets, shape = [*box.offsets], [*box.shape]
    offsets[dim] += start
    shape[dim] = count
    return Box(tuple(offsets), tuple(shape))


def contents(source: Source, name: str, buffer: Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a tensor, piece by piece; each is overwritten by the next."""
    spec = source.specs[name]
    for box in pieces(spec.shape, spec.itemsize, len(buffer)):
        piece = buffer[: box.numel * spec.itemsize]
        source.fill(name, box, piece.view(DTYPES[spec.dtype]).view(box.shape))
        yield bytes_of(piece)
