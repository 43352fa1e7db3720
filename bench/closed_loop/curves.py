"""The time of a step in worlds of different sizes, and its parts.

The shapes are those that are measured on clusters; the figures are one job's: a global batch of 64
microbatches, 16 s of work for one worker. They were written down before any policy was run on them.
"""

from dataclasses import dataclass
from math import ceil
from random import Random

from spotrun_trainer.telemetry.meter import StepTimes

MICROBATCHES = 64
_SIGMA = 0.03  # of the logarithm of what a part of a step takes
_HICCUP_EVERY, _HICCUP = 200, 3.0  # one step in so many takes so many times as long


@dataclass(frozen=True)
class Curve:
    """A job's step as a function of the number of workers."""

    name: str
    microbatches: int = MICROBATCHES
    microbatch_seconds: float = 0.25
    serial_seconds: float = 0.0  # that every worker computes, however many there are
    ring_seconds: float = 0.0  # all gradients once over the slowest link
    hop_seconds: float = 0.0  # of a ring's 2 (n - 1)
    overlap: float = 0.5  # of computing: beside it gradients travel unnoticed
    input_seconds: float = 0.0  # in which the storage delivers a batch, to all together

    def step(self, workers: int) -> StepTimes:
        """A step of so many workers, without noise."""
        parallel = ceil(self.microbatches / workers) * self.microbatch_seconds
        compute = parallel + self.serial_seconds
        others = workers - 1
        ring = 2 * others / workers * self.ring_seconds + 2 * others * self.hop_seconds
        data = max(self.input_seconds - compute, 0.0)
        return StepTimes(compute, data, max(ring - self.overlap * compute, 0.0), 0.0)

    def noisy_step(self, workers: int, dice: Random) -> StepTimes:
        """A step as it is measured."""
        compute, data, communicate, _ = self.step(workers)
        slower = _HICCUP if dice.randrange(_HICCUP_EVERY) == 0 else 1.0
        compute *= slower * dice.lognormvariate(0.0, _SIGMA)
        return StepTimes(compute, data, communicate * dice.lognormvariate(0.0, _SIGMA), 0.0)


LINEAR = Curve("linear")
AMDAHL = Curve("amdahl_5", microbatch_seconds=0.95 * 0.25, serial_seconds=0.05 * 16.0)
"""5 % of one worker's step are not divided. They are computed, so utilization does not show it."""
COMMUNICATION = Curve("communication_bound", ring_seconds=1.0, hop_seconds=0.015)
INPUT = Curve("input_bound", input_seconds=3.2)
"""A step waits for the storage from 5 workers on."""
STEADY = (LINEAR, AMDAHL, COMMUNICATION, INPUT)


@dataclass(frozen=True)
class Load:
    """The behaviour of a job over its life: curves, each from a share of its steps on."""

    name: str
    curves: tuple[tuple[float, Curve], ...]

    @classmethod
    def steady(cls, curve: Curve) -> "Load":
        """Return a load that is the same from its first step to its last."""
        return cls(curve.name, ((0.0, curve),))

    @classmethod
    def changing(cls, before: Curve, after: Curve) -> "Load":
        """Another curve from the half on."""
        return cls(f"{before.name}_then_{after.name}", ((0.0, before), (0.5, after)))

    @property
    def num_changes(self) -> int:
        """The number of times that it becomes another one."""
        return len(self.curves) - 1

    def at(self, share: float) -> Curve:
        """The curve when such a share of the steps is done."""
        return next(curve for since, curve in reversed(self.curves) if since <= share)


CACHED = Load.changing(INPUT, LINEAR)
"""A data set that is read from afar in its first epoch, and from the cache from then on."""
LONGER = Load.changing(LINEAR, COMMUNICATION)
"""A curriculum whose later half exchanges more than it computes."""
