"""The arithmetic of a step: numbers of samples, microbatches and steps."""

from dataclasses import dataclass

from spotrun_trainer.data.sharding import Block, Share, block_of


@dataclass(frozen=True)
class Batch:
    """A step's samples; they do not depend on the world."""

    global_batch: int
    microbatch: int

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

    def block(self, samples: int, share: Share) -> Block:
        """Return a process's part of the step that begins after so many samples."""
        return block_of(samples, self.global_batch, self.microbatch, share)

    def check_parts(self, parts: int) -> None:
        """Raise ValueError if a copy's parts would not get the same number of microbatches."""
        if self.microbatches % parts:
            raise ValueError(
                f"{self.microbatches} microbatches cannot be divided evenly among the {parts} "
                "processes of a copy of the model, which compute together: let global_batch be a "
                f"multiple of microbatch x {parts}"
            )


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
