"""The training of a job, as decisions carry it: its progress, its checkpoints, and its pace.

Each field is explained at its name in the CRD.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from spotrun.api.field_types.amounts import Percent
from spotrun.money.units import Usd


@dataclass(frozen=True, slots=True)
class Progress:
    """The steps of the training, and its end as far as it is known."""

    step: int | None = None
    total_steps: int | None = None
    percent: Percent | None = None
    samples_per_second: Decimal | None = None
    eta: datetime | None = None


NO_PROGRESS = Progress()
"""The state before a step was reported."""


@dataclass(frozen=True, slots=True)
class MetricCourse:
    """The course of a metric that decides about an end; it has a fixed size."""

    metric: str = ""
    best: float | None = None
    best_step: int | None = None  # the step of the first value, until there is a best one
    step: int | None = None  # of the newest value that was judged
    no_better_reports: int = 0
    decided_at: datetime | None = None
    reason: str | None = None
    message: str | None = None


NO_COURSE = MetricCourse()
"""The state while no value was judged."""


@dataclass(frozen=True, slots=True)
class StageState:
    """The stage that trains, or that begins as soon as a world of this stage is entered."""

    name: str
    index: int
    since_step: int
    since: datetime
    course: MetricCourse = NO_COURSE
    ends_since: datetime | None = None  # when its end was decided
    why: str | None = None


@dataclass(frozen=True, slots=True)
class AcknowledgedCheckpoint:
    """The newest checkpoint that the operator acknowledged: a world restores this one."""

    name: str
    step: int
    time: datetime
    orders: int | None = None  # the checkpoint orders given before it began; None: not reported


@dataclass(frozen=True, slots=True)
class LocalCheckpoint:
    """The newest complete step in the local tier; it is lost when the workers are gone."""

    step: int
    time: datetime


@dataclass(frozen=True, slots=True)
class SavingPlan:
    """The interval between saves, and the number of kept checkpoints, within their budget."""

    every_seconds: int
    keep: int
    usd_per_month: Usd
    lost_work_usd_per_month: Usd
    within_budget: bool
    why: str


@dataclass(frozen=True, slots=True)
class BatchChange:
    """The last change of size of a script without `Run`, and its effect on the batches."""

    time: datetime
    from_workers: int
    to_workers: int
    message: str


@dataclass(frozen=True, slots=True)
class Pace:
    """Measurements of the job: the duration of its steps and of its changeovers."""

    step_seconds: Decimal | None = None
    workers: int | None = None
    changeovers: tuple[int, ...] = ()
    measured: int | None = None


NO_PACE = Pace()
"""The state before anything was measured."""
