"""The votes by which the processes of a copy drop a microbatch together.

If one of them runs out of memory within a layer, its mates wait for it in a collective. So each
collective among them begins with a vote: 0 as usual, or 1 in the last vote, which a process casts
after it ran out of memory, before it leaves its pass. A process that sees a 1 casts a last vote in
all other groups of the copy (the dimensions of its mesh). So each process casts one last vote in
each group, where the others cast theirs or vote as usual, and none of them waits for ever.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

import torch
from torch import Tensor


class Sum(Protocol):
    """A sum in flight."""

    def wait(self) -> None:
        """Return once it is there."""


class Voters(Hashable, Protocol):
    """The processes of a copy, or of one dimension of its mesh."""

    def all_reduce(self, tensor: Tensor) -> Sum:
        """Begin to sum a tensor over all of them, in place."""


class GivingUp:
    """The votes of one process in one world."""

    def __init__(self, groups: Sequence[Voters], device: torch.device | str) -> None:
        self.has_given_up = False
        self.is_amid_collective = False  # one that failed here, in which mates may wait
        self._groups = groups
        # Allocated in advance: there is no memory for them when they are needed.
        self._usual = {one: torch.zeros(1, device=device) for one in groups}
        self._last = {one: torch.ones(1, device=device) for one in groups}
        self._cast: dict[Voters, Sum | None] = {}

    def goes_on(self, group: Voters) -> bool:
        """Vote before a collective; return whether all processes of the group take part in it."""
        if self.has_given_up:
            return False
        vote = self._usual[group].zero_()
        group.all_reduce(vote).wait()
        if not vote.item():
            return True
        self._cast[group] = None  # the vote cast here was the last one
        self.give_up()
        return False

    def give_up(self) -> None:
        """Cast the last vote in all groups, and wait for none of them."""
        self.has_given_up = True
        for group in self._groups:
            if group not in self._cast:
                self._cast[group] = group.all_reduce(self._last[group].fill_(1))

    def begin_anew(self) -> None:
        """Vote as usual again, once all have dropped the step, after their last votes."""
        self.give_up()
        for pending in self._cast.values():
            if pending is not None:
                pending.wait()
        self._cast.clear()
        self.has_given_up = False
