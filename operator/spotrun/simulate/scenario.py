"""A scenario: a job, and the rules by which a recorded market is replayed for it."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from spotrun.api.trainingjob import TrainingJobSpec

_GIVEN_UP_AFTER = 10.0
"""A job that takes longer than this many times its deadline is given up."""
PROVISION_SECONDS = 120.0
"""The time that an autoscaler usually needs for a node if the cloud has one."""


class Observe(StrEnum):
    """The knowledge of a policy about a pool in which it has no node."""

    MARKET = "market"  # whether it has nodes available, at every moment and without asking
    ATTEMPTS = "attempts"  # only what it learned from its own requests


@dataclass(frozen=True)
class Job:
    """The work to do, and its deadline.

    A world of `workers` does one second of work per second; worlds of other sizes are slower or
    faster in proportion.
    """

    work_seconds: float
    deadline_seconds: float  # inf: there is none
    workers: int = 1
    min_workers: int = 1
    max_workers: int = 1
    reach_seconds: float = inf  # length of the recordings after the start of the replay
    spec: TrainingJobSpec | None = None  # None: a usual spec, with any capacity

    @property
    def given_up_seconds(self) -> float:
        """The time after which a replay is given up: it takes too long, or the recording ends."""
        return min(_GIVEN_UP_AFTER * self.deadline_seconds, self.reach_seconds)


@dataclass(frozen=True)
class Rules:
    """The costs of starting, losing and asking."""

    changeover_seconds: float = 600.0  # from a node's start to its worker's first step
    checkpoint_seconds: float = 600.0  # of training between two checkpoints; 0: nothing is lost
    observe: Observe = Observe.ATTEMPTS
    assume_capacity: bool = False  # if all probed nodes were available, assume that more were
    on_demand_dry_rate: float = 0.0  # the share of hours in which on-demand is not available

    @property
    def provision_seconds(self) -> float:
        """The part of the changeover until the node has joined, or turns out not to come.

        Published replays do not divide the changeover.
        """
        is_published = self.observe is Observe.MARKET
        return 0.0 if is_published else min(PROVISION_SECONDS, self.changeover_seconds)
