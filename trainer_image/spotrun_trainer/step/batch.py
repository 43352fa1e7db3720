"""The arithmetic of a step: numbers of samples, microbatches and steps."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from spotrun_trainer.data.order.sharding import Block, Share, block_of

MOST_SAMPLES = 1024
"""The largest microbatch that is tried if the script sets none: a process loads several of them
ahead, so larger ones could fill the host's memory, and the kernel would kill the process, before
the GPU's memory is full."""


UNTIL = "SPOTRUN_UNTIL_STEP"


class TooLargeError(Exception):
    """A microbatch did not fit into memory: its step is dropped, and repeated in smaller ones."""

    def __init__(self, microbatch: int, *, is_agreed: bool) -> None:
        """Note the size; `is_agreed` says that all processes have dropped the step."""
        super().__init__(f"a microbatch of {microbatch} samples did not fit into memory")
        self.microbatch = microbatch
        self.is_agreed = is_agreed


def largest_microbatch(samples: int, processes: int, most: int) -> int:
    """Return the largest microbatch, of at most `most` samples, such that each process gets one.

    It divides the samples of a step; 1 if there are more processes than samples.
    """
    most = max(1, min(most, samples // processes))
    return next(size for size in range(most, 0, -1) if samples % size == 0)


@dataclass(frozen=True)
class Batch:
    """A step's samples; they do not depend on the world."""

    global_batch: int
    microbatch: int
    may_shrink: bool = False  # whether the size of a microbatch may follow the memory
    parts: int = 1  # processes of a copy, each with the same number of microbatches

    def __post_init__(self) -> None:
        if self.global_batch < 1 or self.microbatch < 1:
            raise ValueError("global_batch and microbatch must be numbers of samples, at least 1")
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
        """Return a process's part of the step that begins after `samples` samples."""
        return block_of(samples, self.global_batch, self.microbatch, share)

    def check_parts(self, parts: int) -> None:
        """Raise ValueError if a copy's parts would not get the same number of microbatches."""
        if self.may_shrink and self.microbatches % parts:
            raise ValueError(
                f"global_batch={self.global_batch} cannot be divided evenly among the {parts} "
                f"processes of a copy of the model: choose a multiple of {parts}"
            )
        if self.microbatches % parts:
            raise ValueError(
                f"{self.microbatches} microbatches cannot be divided evenly among the {parts} "
                "processes of a copy of the model, which compute together: choose a global_batch "
                f"that is a multiple of microbatch x {parts}"
            )


def until_step(env: Mapping[str, str] = os.environ) -> int | None:
    """Return the step at which the job ends, regardless of its script; None: at none."""
    text = env.get(UNTIL)
    if not text:
        return None
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{UNTIL} must be the number of a step, such as 300, not {text[:80]!r}")
    return int(text)


def earlier(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two ends; either may be None."""
    return min((end for end in (one, other) if end is not None), default=None)


def total_steps(
    batch: Batch, samples: int | None, total: int | None, epochs: float | None
) -> int | None:
    """Return the number of steps, by the samples in an epoch; None if there is no end."""
    if epochs is None:
        if total is not None and total < 1:
            raise ValueError(f"total={total}: training must have at least one step")
        return total
    if total is not None:
        raise ValueError("total and epochs both say when training ends: give one of them")
    if samples is None:
        raise ValueError(
            f"epochs={epochs} needs a dataset with a length, but this one has none: give total=, a "
            "number of steps"
        )
    # Rounded up: every sample is used at least this often.
    return max(1, -int(-epochs * samples // batch.global_batch))
