"""Sums of matrices as products of two thin ones (PowerSGD: Vogels et al. 2019).

torch's own hook for DDP keeps the same state, but changes it during a reduction, when a step may
still be dropped, and needs a bucket that only DDP makes.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap

import torch
from torch import Tensor

from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group

_LEAST_SAVING = 2  # torch's min_compression_rate: other matrices are sent as they are


class LowRankCodec:
    """Sends the product of each matrix with a thin one, and its product with that one's base.

    Implements `Codec`. The thin ones begin at random, and continue from the previous sum ("warm
    start"), so they come close to the best ones. A worker that joins begins at random: all
    processes still get the same result, because it depends only on sums over all processes.
    """

    def __init__(self, shapes: Sequence[torch.Size], rank: int) -> None:
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + shape.numel())
        is_matrix = [_pays(shape, rank) for shape in shapes]
        places = list(starmap(slice, pairwise(ends)))
        self._matrices = [
            (place, (shape[0], shape.numel() // shape[0]))
            for place, shape, pays in zip(places, shapes, is_matrix, strict=True)
            if pays
        ]
        self._others = [one for one, pays in zip(places, is_matrix, strict=True) if not pays]
        self._num_others: int = sum(one.stop - one.start for one in self._others)
        self._num_marks = len(shapes)
        self._rank = rank
        self._bases: list[Tensor] = []  # matrix columns by rank; empty before the first sum
        self._new_bases: list[Tensor] = []

    def rounds(
        self, values: Tensor, marks: Tensor, rest: Tensor, group: Group
    ) -> Iterator[Pending]:
        """Sum in two rounds, or in one if no matrix is worth it."""
        matrices = [values[place].view(shape) for place, shape in self._matrices]
        bases = self._bases or [self._first(one, number) for number, one in enumerate(matrices)]
        left = [matrix @ base for matrix, base in zip(matrices, bases, strict=True)]
        others = [values[place] for place in self._others]
        message = _together([*left, *others, marks])
        yield group.all_reduce(message)
        _apart(message, [*left, *others, marks])
        if not matrices:
            return
        # Householder's method: columns come out orthogonal even for a matrix of lower rank.
        left = [torch.linalg.qr(one).Q for one in left]
        right = [matrix.T @ one for matrix, one in zip(matrices, left, strict=True)]
        for (place, _), matrix, one, other in zip(
            self._matrices, matrices, left, right, strict=True
        ):
            torch.sub(matrix, one @ other.T, out=rest[place].view(matrix.shape))
        message = _together(right)
        yield group.all_reduce(message)
        _apart(message, right)
        for matrix, one, other in zip(matrices, left, right, strict=True):
            matrix.copy_(one @ other.T)
        self._new_bases = right

    def note_applied(self) -> None:
        """Continue from these sums."""
        # Orthogonal again, so that a matrix of zeros does not stay one for ever.
        self._bases = [torch.linalg.qr(one).Q for one in self._new_bases]

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of both messages."""
        thin = sum(self._rank * sum(shape) for _, shape in self._matrices)
        return (thin + self._num_others + self._num_marks) * torch.float32.itemsize

    def _first(self, matrix: Tensor, number: int) -> Tensor:
        generator = torch.Generator().manual_seed(number)
        base = torch.randn(matrix.shape[1], self._rank, generator=generator)
        return base.to(matrix)


def _pays(shape: torch.Size, rank: int) -> bool:
    if len(shape) < 2 or not shape.numel():
        return False
    rows, columns = shape[0], shape.numel() // shape[0]
    return (rows + columns) * rank * _LEAST_SAVING < rows * columns


def _together(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in parts])


def _apart(message: Tensor, parts: Sequence[Tensor]) -> None:
    pieces = torch.split(message, [one.numel() for one in parts])
    for part, piece in zip(parts, pieces, strict=True):
        part.copy_(piece.view(part.shape))
