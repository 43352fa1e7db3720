"""Sums in bf16."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group


class NarrowCodec:
    """Rounds what is sent to bf16; implements `Codec`.

    A process keeps what its own rounding has left out. Sums are rounded during the reduction as
    well, and that difference is lost.
    """

    def __init__(self, shapes: Sequence[torch.Size]) -> None:
        self._numel = sum(shape.numel() for shape in shapes) + len(shapes)

    def rounds(
        self, values: Tensor, marks: Tensor, rest: Tensor, group: Group
    ) -> Iterator[Pending]:
        """Sum in bf16, where a count stays above zero no matter what is added."""
        message = torch.cat([values, marks]).to(torch.bfloat16)
        torch.sub(values, message[: len(values)], out=rest)
        yield group.all_reduce(message)
        values.copy_(message[: len(values)])
        marks.copy_(message[len(values) :])

    def note_applied(self) -> None:
        """Do nothing: there is nothing else to carry."""

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of the message."""
        return self._numel * torch.bfloat16.itemsize
