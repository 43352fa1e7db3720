"""The microbatches of a step for each process: pure functions of the step and the world."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

NOBODY: AbstractSet[int] = frozenset()


@dataclass(frozen=True)
class Share:
    """A process's place among the processes that get a step's microbatches.

    Microbatches are dealt to copies of the model. If several processes hold one copy together, all
    of them compute the same microbatches, or each of its `parts` computes the same number of its
    own.
    """

    size: int = 1
    """The copies of the model."""
    rank: int = 0
    """The number of this copy."""
    idle: AbstractSet[int] = NOBODY
    """The copies that get no microbatch."""
    parts: int = 1
    part: int = 0
    dealt: Sequence[int] = ()
    """The microbatches of each part of a copy, by copy; empty: as evenly as they can be dealt."""


@dataclass(frozen=True)
class Block:
    """Consecutive microbatches of one step, dealt to one process."""

    start: int
    """The number of its first sample since the beginning of training."""
    microbatches: int
    microbatch: int
    """Samples in each."""
    stride: int = 0
    """Samples from here to this process's block of the next step, which is the global batch.

    It lets a source load ahead into the next steps. 0: no step follows.
    """


def deal_to(microbatches: int, share: Share) -> range:
    """Return a process's microbatches of a step; all parts of a copy get the same number."""
    of_a_part = microbatches // share.parts
    dealt = deal(of_a_part, share.size, share.rank, share.idle, share.dealt)
    first = dealt.start * share.parts + share.part * len(dealt)
    return range(first, first + len(dealt))


def deal(
    microbatches: int,
    size: int,
    rank: int,
    idle: AbstractSet[int] = NOBODY,
    dealt: Sequence[int] = (),
) -> range:
    """Return `rank`'s microbatches of a step, of `size` processes; `idle` ranks get none.

    They are consecutive, so that a process sums them as a subtree; the shares differ by at most
    one, and the first processes have the larger ones, unless `dealt` gives the numbers.
    """
    if dealt:
        assert (len(dealt), sum(dealt)) == (size, microbatches), "each microbatch is dealt once"
        first = sum(dealt[:rank])
        return range(first, first + dealt[rank])
    if rank in idle:
        return range(0)
    size, rank = size - len(idle), rank - sum(one < rank for one in idle)
    share, greater = divmod(microbatches, size)
    first = rank * share + min(rank, greater)
    return range(first, first + share + (rank < greater))


def block_of(step_start: int, global_batch: int, microbatch: int, share: Share) -> Block:
    """Return a process's block of the step that begins with sample `step_start`."""
    dealt = deal_to(global_batch // microbatch, share)
    start = step_start + dealt.start * microbatch
    return Block(start, len(dealt), microbatch, stride=global_batch)


def upcoming(block: Block, first: int, count: int) -> list[tuple[int, int]]:
    """Return the block's microbatches from `first` on, then those of the blocks that follow it.

    Each is the number of its first sample and its size; `count` of them, if that many are known.
    """
    if not block.microbatches:
        return []
    if not block.stride:
        count = min(count, block.microbatches - first)
    places = (divmod(number, block.microbatches) for number in range(first, first + count))
    return [
        (block.start + step * block.stride + number * block.microbatch, block.microbatch)
        for step, number in places
    ]


def earliest(block: Block) -> int:
    """Return a lower bound of the first sample of this block's step, at most one step too low.

    A block does not know which other blocks its step has.
    """
    own = block.microbatches * block.microbatch
    return max(0, block.start - max(0, block.stride - own))
