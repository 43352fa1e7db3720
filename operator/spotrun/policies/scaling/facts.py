"""The facts of a choice of size: plain numbers, gathered from snapshot and status beforehand.

Times, rates and dollars are floats here: they are used to compare sizes, not to charge anybody.
"""

from dataclasses import dataclass
from enum import StrEnum

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource


class Pause(StrEnum):
    """The reason why nothing can be concluded yet. It is no answer, and justifies no write."""

    MEASURING = "the operator waits for three measurements of the steps"
    STABILIZING = "another size is justified, but not for long enough yet"
    RESIZING = "the last change of the size is not complete"
    NOT_TRAINING = "no world trains"


@dataclass(frozen=True)
class StepTimes:
    """A step of the world that trains: medians over at least three windows."""

    workers: int
    seconds: float
    samples: float  # of all workers together
    # Shares of the step, whose sum is 1; None: the agents do not say.
    compute: float | None = None
    data: float | None = None
    communicate: float | None = None

    @property
    def samples_per_second(self) -> float:
        """The speed at which the job trains."""
        return self.samples / self.seconds


@dataclass(frozen=True)
class Gauge:
    """A utilization to keep, and what the workers report of it; shares from 0 to 1."""

    resource: TargetResource
    target: float
    tolerance: float = 0.1  # of the target
    reported: tuple[float, ...] = ()  # by workers that train, smoothed
    silent: int = 0  # those of them that reported nothing

    @property
    def lowest(self) -> float:
        """The lowest utilization that is near enough to the target."""
        return self.target * (1 - self.tolerance)

    @property
    def usage(self) -> float | None:
        """The mean of what was reported; None if nothing was."""
        return sum(self.reported) / len(self.reported) if self.reported else None


@dataclass(frozen=True)
class Cap:
    """The largest size that is available, or can be paid for, at present."""

    size: int
    reason: ScalingReason


@dataclass(frozen=True)
class SizingFacts:
    """All that a choice of size may depend on, except the memory of earlier sizes."""

    sizes: tuple[int, ...]  # those allowed, ascending
    wanted: int  # the size asked for now, one of them
    running: int  # workers of the world that trains; 0: no world trains
    gauges: tuple[Gauge, ...] = ()
    step: StepTimes | None = None  # of that world; None until measured for long enough
    microbatches: int | None = None  # of a step, of all workers together; None: unknown
    processes: int = 1  # of a worker, between which microbatches are dealt
    usd_per_hour: float | None = None  # of one worker; None: unknown
    hour_worth_usd: float | None = None  # None: the user did not say
    min_efficiency: float = 0.6
    up_after_seconds: float = 120.0
    down_after_seconds: float = 600.0
    remaining_samples: float | None = None  # until the end of the training; None: unknown
    deadline_seconds: float | None = None  # until then; None: there is none
    needed_samples_per_second: float | None = None  # to meet it
    stall_seconds: float = 5.0  # in which training stands still at a change
    changeover_seconds: float = 600.0  # from a joining worker's launch until it trains
    life_seconds: float | None = None  # how long a size lasts until the market changes it
    caps: tuple[Cap, ...] = ()
    free: int | None = None  # further workers for which there may be room; None: no limit is known
    accelerator: str = ""  # on which the world trains
    is_mute: bool = False  # its script reports no steps: there will be no `step`
    use_unknown: str = ""  # why then even the use of its workers is unknown
    has_checkpoints: bool = True  # from which restarted processes can continue

    @property
    def is_use_settled(self) -> bool:
        """Whether the use of workers is known, or is known to stay unknown."""
        is_reported = any(gauge.reported for gauge in self.gauges)
        return is_reported or bool(self.use_unknown) or self.hour_worth_usd == 0

    @property
    def cap(self) -> Cap | None:
        """The tightest limit."""
        return min(self.caps, key=lambda cap: cap.size, default=None)
