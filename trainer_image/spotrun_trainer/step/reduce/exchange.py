"""The sum of one bucket in fewer bytes, with what was left out kept for the next step.

A step is applied by all processes or by none. So what it leaves out replaces the earlier rest only
once it is applied (`keep_rest`). Until then both are kept.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group


class Codec(Protocol):
    """One way to send gradients; it may keep state that helps with the next ones."""

    def rounds(
        self, values: Tensor, marks: Tensor, rest: Tensor, group: Group
    ) -> Iterator[Pending]:
        """Sum `values` and `marks` over the group, in place; yield each collective once begun.

        The caller waits for each before it asks for the next one. The part of this process's values
        that is not in the sum goes into `rest`; `marks` are summed exactly. All processes get the
        same bits.
        """

    def note_applied(self) -> None:
        """Note that all processes have applied the last sum."""

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of an all-reduce over so many processes that sends as much."""


class Rounds:
    """The collectives of one sum, one after the other."""

    def __init__(self, rounds: Iterator[Pending]) -> None:
        self._rounds = rounds
        self._present: Pending | None = None
        self.go_on()

    def go_on(self) -> bool:
        """Wait for the present collective, and begin the next one; return whether there is one.

        All processes call it in the same order for all of their sums.
        """
        if self._present is not None:
            self._present.wait()
        self._present = next(self._rounds, None)
        return self._present is not None

    def wait(self) -> None:
        """Return once the sum is complete; raises PeerLostError."""
        while self.go_on():
            pass


class Exchange:
    """The sums of one flat tensor, step after step, with error feedback."""

    def __init__(self, codec: Codec, sizes: Sequence[int]) -> None:
        self._codec = codec
        self._sizes = sizes  # of the tensors in the flat tensor
        self._is_sent = False
        self._rest: Tensor | None = None  # left out of all applied steps; None: zeros
        self._new_rest: Tensor | None = None  # the same, if the current step is applied

    def begin(
        self, values: Tensor, marks: Tensor, group: Group, *, is_dropped: bool = False
    ) -> Rounds:
        """Begin to sum over the group, in place.

        If all will drop the sum (`is_dropped`) its content does not matter, and what is left out
        takes no memory: this process may just have run out of memory.
        """
        if self._rest is not None:
            values.add_(self._rest)
        self._new_rest = values if is_dropped else torch.zeros_like(values)
        self._is_sent = group.size > 1  # a single process need not leave anything out
        if not self._is_sent:
            return Rounds(iter(()))
        return Rounds(self._codec.rounds(values, marks, self._new_rest, group))

    def keep_rest(self, marks: Tensor, *, some_missing: bool) -> None:
        """Note that all processes have applied the sum.

        For a parameter without a gradient in any process (no mark) nothing was applied.
        """
        if self._new_rest is None:
            return
        if some_missing:
            sizes = torch.tensor(self._sizes, dtype=torch.int64, device=marks.device)
            is_unused = torch.repeat_interleave(marks == 0, sizes)
            old = torch.zeros_like(self._new_rest) if self._rest is None else self._rest
            self._new_rest = torch.where(is_unused, old, self._new_rest)
        self._rest, self._new_rest = self._new_rest, None
        if self._is_sent:
            self._codec.note_applied()

    def drop(self) -> None:
        """Go back to what was left out before this step."""
        self._new_rest = None

    def sync_bytes(self, size: int) -> int:
        """Return the bytes of an all-reduce over so many processes that sends as much."""
        return self._codec.sync_bytes(size)
