"""Sums of each process's largest gradients."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group

_WORD_BYTES = 4  # of a position, of a value, and of a mark


class SparseCodec:
    """Sends the values with the largest magnitude, with their positions; implements `Codec`."""

    def __init__(self, shapes: Sequence[torch.Size], ratio: float) -> None:
        self._marks = len(shapes)
        numel = sum(shape.numel() for shape in shapes)
        self._count = min(numel, math.ceil(numel * ratio))

    def rounds(
        self, values: Tensor, marks: Tensor, rest: Tensor, group: Group
    ) -> Iterator[Pending]:
        """Gather all processes' values, and add them up in the order of ranks."""
        count = self._count
        places = torch.topk(values.abs(), count, sorted=False).indices
        sent = values[places].float()
        rest.copy_(values)
        rest[places] -= sent.to(rest.dtype)
        message = torch.cat([places.int(), sent.view(torch.int32), marks.int()])
        gathered = message.new_empty((group.size, len(message)))
        rows = list(gathered.unbind(0))
        yield group.begin(lambda backend: backend.allgather([rows], [message]), message)
        values.zero_()
        for row in rows:  # one after the other: within a row each position occurs once
            there, content, _ = torch.split(row, [count, count, self._marks])
            values.index_add_(0, there, content.view(torch.float32).to(values.dtype))
        marks.copy_(gathered[:, 2 * count :].sum(0))

    def note_applied(self) -> None:
        """Do nothing: there is nothing else to carry."""

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of an all-reduce that sends as many bytes on each link of a ring.

        A gather sends each message (n-1) times around, an all-reduce 2 (n-1)/n of its bytes.
        """
        return (2 * self._count + self._marks) * _WORD_BYTES * size // 2
