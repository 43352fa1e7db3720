"""The processes' votes at the commit of a step, as numbers in one small sum over all.

A step is applied only after this sum has returned. All processes get the same numbers, so they take
the same decision: save now, leave, stop. A vote is a 0 or a 1, so the sum is positive if any
process cast it; counts add up.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace


class DivergedError(Exception):
    """Processes that should hold the same state do not."""


@dataclass(frozen=True)
class StepVote:
    """The vote of one process, or the sum over all."""

    save: int = 0  # write a checkpoint at the end of this step
    leave: int = 0  # this process ends after this step: SIGTERM, or its time is over
    hopeless: int = 0  # it ends too soon for a checkpoint to be durable in time
    local: int = 0  # save in the local tier at the end of this step
    local_busy: int = 0  # the last save there is not done on this process
    local_failed: int = 0  # the last save there has failed on this process
    stop: int = 0  # the training must end here: run.stop()
    change: int = 0  # all enter another world together after this step
    too_large: int = 0  # a microbatch did not fit into memory: nothing is applied
    missing: int = 0  # parameters that got no gradient
    unknown: int = 0  # buffers that changed without an agreement
    durable: int = 0  # the checkpoint that was begun last is complete
    unsaved: int = 0  # this process could not write its part of that checkpoint
    checksum: int = 0  # of the state; 0 if it is not compared


SIZE = len(fields(StepVote))


def encode(vote: StepVote) -> list[float]:
    """Return a vote as numbers to be summed."""
    return [float(value) for value in astuple(vote)]


def decode(sums: Sequence[float]) -> StepVote:
    """Return the sum of all votes from its numbers."""
    return StepVote(*(round(value) for value in sums))


def sum_votes(votes: Sequence[StepVote]) -> StepVote:
    """Return the sum of the votes at several commits of one step."""
    return StepVote(*(sum(values) for values in zip(*map(astuple, votes), strict=True)))


def without_plans(total: StepVote) -> StepVote:
    """Return the votes that count in another world, where all processes vote again on actions."""
    plans = (
        "save",
        "leave",
        "hopeless",
        "local",
        "local_busy",
        "local_failed",
        "change",
        "durable",
        "unsaved",
    )
    return replace(total, **dict.fromkeys(plans, 0))


def have_equal_state(total: StepVote, own: StepVote, size: int) -> bool:
    """Whether all checksums are equal, as far as this process can see.

    If any two differ, at least one process sees a sum that is not its own checksum times the size.
    """
    return total.checksum == own.checksum * size


def check_equal(outcome: StepVote, own: StepVote, size: int) -> None:
    """Raise DivergedError if some processes hold another state."""
    if not have_equal_state(outcome, own, size):
        raise DivergedError(
            "the processes no longer hold the same weights, bit by bit, or use other learning "
            "rates: something changed them differently, such as a change to a parameter outside "
            "step.update, a schedule that steps outside step.update, or another model of "
            "accelerator; continue from the last checkpoint without it"
        )
