"""A scenario: a job, and the rules by which a recorded market is played to it."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from spotrun.api.trainingjob import TrainingJobSpec

_GIVEN_UP_AFTER = 10.0
"""A job that takes longer than this many deadlines is not going to end."""
PROVISION_SECONDS = 120.0
"""The time that autoscalers usually take on clouds that have the node."""


class Observe(StrEnum):
    """The knowledge of a policy about a pool that it has no node in."""

    MARKET = "market"  # whether it has nodes to give, at every moment and for free
    ATTEMPTS = "attempts"  # only what it learned by asking


@dataclass(frozen=True)
class Job:
    """The work to do, and its deadline.

    A world of `workers` does one second of work in a second; others are slower or faster in
    proportion to their size.
    """

    work_seconds: float
    deadline_seconds: float  # inf: there is none
    workers: int = 1
    min_workers: int = 1
    max_workers: int = 1
    reach_seconds: float = inf  # how far the recordings go on from where they are begun
    spec: TrainingJobSpec | None = None  # None: what its user would write, on any capacity

    @property
    def given_up_seconds(self) -> float:
        """The time after which a replay is given up: it will not end, or the recording has."""
        return min(_GIVEN_UP_AFTER * self.deadline_seconds, self.reach_seconds)


@dataclass(frozen=True)
class Rules:
    """The costs of starting, losing and asking."""

    changeover_seconds: float = 600.0  # from a node's first second to its worker's first step
    checkpoint_seconds: float = 600.0  # of training between two checkpoints; 0: nothing is lost
    observe: Observe = Observe.ATTEMPTS
    assume_capacity: bool = False  # where all nodes that were probed could be had, more could be
    on_demand_dry_rate: float = 0.0  # the share of hours in which on-demand has nothing to give

    @property
    def provision_seconds(self) -> float:
        """The part of the changeover until the node has joined, or is known not to come.

        Published replays do not divide the changeover.
        """
        is_published = self.observe is Observe.MARKET
        return 0.0 if is_published else min(PROVISION_SECONDS, self.changeover_seconds)
