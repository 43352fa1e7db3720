"""The time of a step in worlds of different sizes, and its parts.

The shapes are as measured on clusters; the figures are of one job: a global batch of 64
microbatches, 16 s of work for one worker. They were chosen before any policy was run on them.
"""

from dataclasses import dataclass
from math import ceil
from random import Random

from spotrun_trainer.telemetry.meter import StepTimes

MICROBATCHES = 64
_SIGMA = 0.03  # of the logarithm of the duration of a part of a step
_HICCUP_EVERY, _HICCUP = 200, 3.0  # one step in 200 takes three times as long


@dataclass(frozen=True)
class Curve:
    """A job's step as a function of the number of workers."""

    name: str
    microbatches: int = MICROBATCHES
    microbatch_seconds: float = 0.25
    serial_seconds: float = 0.0  # computed by every worker, independent of their number
    ring_seconds: float = 0.0  # time of all gradients once over the slowest link
    hop_seconds: float = 0.0  # time of one of a ring's 2 (n - 1) hops
    overlap: float = 0.5  # share of computing that hides the transfer of gradients
    input_seconds: float = 0.0  # in which the storage delivers a batch to all workers

    def step(self, workers: int) -> StepTimes:
        """Return a step of this number of workers, without noise."""
        parallel = ceil(self.microbatches / workers) * self.microbatch_seconds
        compute = parallel + self.serial_seconds
        others = workers - 1
        ring = 2 * others / workers * self.ring_seconds + 2 * others * self.hop_seconds
        data = max(self.input_seconds - compute, 0.0)
        return StepTimes(compute, data, max(ring - self.overlap * compute, 0.0), 0.0)

    def noisy_step(self, workers: int, dice: Random) -> StepTimes:
        """Return a step as it is measured, with noise."""
        compute, data, communicate, _ = self.step(workers)
        slower = _HICCUP if dice.randrange(_HICCUP_EVERY) == 0 else 1.0
        compute *= slower * dice.lognormvariate(0.0, _SIGMA)
        return StepTimes(compute, data, communicate * dice.lognormvariate(0.0, _SIGMA), 0.0)


LINEAR = Curve("linear")
AMDAHL = Curve("amdahl_5", microbatch_seconds=0.95 * 0.25, serial_seconds=0.05 * 16.0)
"""5 % of a step is not divided among workers. It is computed, so utilization does not show it."""
COMMUNICATION = Curve("communication_bound", ring_seconds=1.0, hop_seconds=0.015)
INPUT = Curve("input_bound", input_seconds=3.2)
"""A step waits for the storage if there are 5 or more workers."""
STEADY = (LINEAR, AMDAHL, COMMUNICATION, INPUT)


@dataclass(frozen=True)
class Load:
    """The behaviour of a job over time: curves, each from a share of its steps on."""

    name: str
    curves: tuple[tuple[float, Curve], ...]

    @classmethod
    def steady(cls, curve: Curve) -> "Load":
        """Return a load that is the same for all steps."""
        return cls(curve.name, ((0.0, curve),))

    @classmethod
    def changing(cls, before: Curve, after: Curve) -> "Load":
        """Return a load with another curve from half of its steps on."""
        return cls(f"{before.name}_then_{after.name}", ((0.0, before), (0.5, after)))

    @property
    def num_changes(self) -> int:
        """The number of changes of the curve."""
        return len(self.curves) - 1

    def at(self, share: float) -> Curve:
        """Return the curve after a share of the steps."""
        return next(curve for since, curve in reversed(self.curves) if since <= share)


CACHED = Load.changing(INPUT, LINEAR)
"""A data set that is read from remote storage in its first epoch, and from a cache after that."""
LONGER = Load.changing(LINEAR, COMMUNICATION)
"""A curriculum whose second half communicates more than it computes."""
