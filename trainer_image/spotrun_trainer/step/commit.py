"""The end of a step: what every process says, in numbers that one small sum carries to all.

A step is applied only after this sum came back. Because all processes get the same numbers they
decide the same: save now, leave, stop. A vote is a 0 or a 1, so that a sum tells whether anybody
cast it; counts add up.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace

CHECKSUM_BITS = 32  # their sum over two million processes is still exact in a float64


@dataclass(frozen=True)
class StepVote:
    """What one process says, or what all say together."""

    save: int = 0  # write a checkpoint at the end of this step
    leave: int = 0  # ends after this step: SIGTERM, or the time it was given is over
    hopeless: int = 0  # ends so soon that a checkpoint would not be durable in time
    stop: int = 0  # the training is to end here: run.stop()
    change: int = 0  # there is another world, to be entered together after this step
    missing: int = 0  # parameters that got no gradient
    unknown: int = 0  # a buffer changed that the others do not know of
    checksum: int = 0  # of the state; 0 where it is not asked for


SIZE = len(fields(StepVote))


def encode(vote: StepVote) -> list[float]:
    """The ballot as numbers to be summed."""
    return [float(value) for value in astuple(vote)]


def decode(sums: Sequence[float]) -> StepVote:
    """What all said together."""
    return StepVote(*(round(value) for value in sums))


def sum_votes(votes: Sequence[StepVote]) -> StepVote:
    """What was said at several commits of one step."""
    return StepVote(*(sum(values) for values in zip(*map(astuple, votes), strict=True)))


def without_plans(total: StepVote) -> StepVote:
    """What counts of it in another world: there everybody says anew what it wants to do."""
    return replace(total, save=0, leave=0, hopeless=0, change=0)


def have_equal_state(total: StepVote, own: StepVote, size: int) -> bool:
    """Whether nobody's checksum differs, as far as this process can see.

    If any two differ, at least one process sees a sum that is not its own number times all.
    """
    return total.checksum == own.checksum * size
