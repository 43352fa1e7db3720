"""The arithmetic of a step: numbers of samples, microbatches and steps."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from spotrun_trainer.data.order.sharding import Block, Share, block_of

MOST_SAMPLES = 1024
"""The largest microbatch that is tried where the script names none: a process loads several of them
ahead, so larger ones could fill the host's memory, where the kernel kills, before the GPU's."""


UNTIL = "SPOTRUN_UNTIL_STEP"


class TooLargeError(Exception):
    """A microbatch did not fit into memory: its step is dropped, and comes again in smaller."""

    def __init__(self, microbatch: int, *, is_agreed: bool) -> None:
        """Note the size; `is_agreed` says that all processes have dropped the step."""
        super().__init__(f"a microbatch of {microbatch} samples did not fit into memory")
        self.microbatch = microbatch
        self.is_agreed = is_agreed


def largest_microbatch(samples: int, processes: int, most: int) -> int:
    """Return the largest microbatch, of at most `most` samples, of which each process gets one.

    It divides the samples of a step; 1 where there are more processes than samples.
    """
    most = max(1, min(most, samples // processes))
    return next(size for size in range(most, 0, -1) if samples % size == 0)


@dataclass(frozen=True)
class Batch:
    """A step's samples; they do not depend on the world."""

    global_batch: int
    microbatch: int
    may_shrink: bool = False  # the script leaves the size of a microbatch to what fits
    parts: int = 1  # processes of a copy, each of which gets as many microbatches

    def __post_init__(self) -> None:
        if self.global_batch < 1 or self.microbatch < 1:
            raise ValueError("global_batch and microbatch are numbers of samples, from 1 on")
        if self.global_batch % self.microbatch:
            raise ValueError(
                f"global_batch={self.global_batch} is not a multiple of microbatch="
                f"{self.microbatch}: a step is dealt to the processes in whole microbatches"
            )

    @property
    def microbatches(self) -> int:
        """The number of microbatches in a step, of all processes together."""
        return self.global_batch // self.microbatch

    @property
    def smaller(self) -> int | None:
        """The next smaller size of a microbatch, about half; None if it is one sample."""
        if self.microbatch == 1:
            return None
        return largest_microbatch(self.global_batch // self.parts, 1, self.microbatch // 2)

    def block(self, samples: int, share: Share) -> Block:
        """Return a process's part of the step that begins after so many samples."""
        return block_of(samples, self.global_batch, self.microbatch, share)

    def check_parts(self, parts: int) -> None:
        """Raise ValueError if a copy's parts would not get the same number of microbatches."""
        if self.may_shrink and self.microbatches % parts:
            raise ValueError(
                f"global_batch={self.global_batch} cannot be divided evenly among the {parts} "
                f"processes of a copy of the model: let it be a multiple of {parts}"
            )
        if self.microbatches % parts:
            raise ValueError(
                f"{self.microbatches} microbatches cannot be divided evenly among the {parts} "
                "processes of a copy of the model, which compute together: let global_batch be a "
                f"multiple of microbatch x {parts}"
            )


def until_step(env: Mapping[str, str] = os.environ) -> int | None:
    """Return the step at which the job ends, whatever its script says; None: at none."""
    text = env.get(UNTIL)
    if not text:
        return None
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{UNTIL} is the number of a step, such as 300, not {text[:80]!r}")
    return int(text)


def earlier(one: int | None, other: int | None) -> int | None:
    """Return the earlier one of two ends, of which either may be none."""
    return min((end for end in (one, other) if end is not None), default=None)


def total_steps(
    batch: Batch, samples: int | None, total: int | None, epochs: float | None
) -> int | None:
    """Return the number of steps, with so many samples in an epoch; None if there is no end."""
    if epochs is None:
        if total is not None and total < 1:
            raise ValueError(f"total={total}: training has at least one step")
        return total
    if total is not None:
        raise ValueError("total and epochs both say when training ends: give one of them")
    if samples is None:
        raise ValueError(
            f"epochs={epochs} needs a dataset with a length, and this one has none: give total=, "
            "a number of steps"
        )
    # Rounded up: every sample is used at least so often.
    return max(1, -int(-epochs * samples // batch.global_batch))
