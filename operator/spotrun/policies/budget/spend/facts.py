"""The facts about limits and jobs on which the decision for a namespace is based."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from spotrun.api.field_types.amounts import Percent
from spotrun.api.names import Choice, SuspendedBy
from spotrun.api.spec.spend_limit import OnLimit, SpendLimitSpec
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.money.budget import HEADROOM
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour, seconds_between
from spotrun.policies.budget.policy import end_usd
from spotrun.policies.budget.spend.period import Period, period_of
from spotrun.state.job_state import JobState
from spotrun.state.sizes import smallest, wanted
from spotrun.state.snapshot import grace_seconds_of
from spotrun.state.stored.cost import Cost, SpendBefore
from spotrun.state.stored.statements import Condition
from spotrun.state.view import FINISHED

USEFUL_SECONDS = 600
"""A start takes minutes: a job that cannot train for ten minutes would only pay for its start."""


class SpendCondition(Choice):
    """The conditions of a SpendLimit."""

    WITHIN_LIMIT = "WithinLimit", "less is spent than limitUsd"
    BELOW_WARNING = "BelowWarning", "less is spent than warnAtPercent of limitUsd"
    STARTS_ALLOWED = "StartsAllowed", "no job is held or stopped by this limit"


class SpendReason(StrEnum):
    """The reasons in these conditions."""

    WITHIN = "Within"
    EXCEEDED = "Exceeded"
    WARNING = "Warning"
    HOLDS = "HoldsJobs"


@dataclass(frozen=True, slots=True)
class SpendState:
    """Everything that is stored about a SpendLimit."""

    observed_generation: int | None = None
    message: str | None = None
    period_start: datetime | None = None
    period_end: datetime | None = None
    spent_usd: Usd = NO_USD
    deleted_usd: Usd = NO_USD
    reserved_usd: Usd = NO_USD
    forecast_usd: Usd | None = None
    used_percent: Percent | None = None
    running: int = 0
    held: int = 0
    suspended: int = 0
    held_jobs: tuple[str, ...] = ()
    suspended_jobs: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    as_of: datetime | None = None


@dataclass(frozen=True)
class Limit:
    """A SpendLimit, and its stored state."""

    name: str
    spec: SpendLimitSpec
    version: str = ""
    generation: int = 0
    state: SpendState = field(default_factory=SpendState)

    @property
    def is_binding(self) -> bool:
        """Whether the limit keeps jobs from starting."""
        return self.spec.on_exceeded is not OnLimit.WARN

    @property
    def usd(self) -> Usd:
        """The limit itself."""
        return Usd.of(self.spec.limit_usd)

    def covers(self, job: "JobFacts") -> bool:
        """Whether the limit counts the job."""
        return self.covers_labels(job.labels)

    def covers_labels(self, labels: Mapping[str, str]) -> bool:
        """Whether the limit counts a job with these labels."""
        selector = self.spec.selector
        wanted = selector.match_labels if selector is not None else {}
        return all(labels.get(key) == value for key, value in wanted.items())

    def period(self, now: datetime) -> Period:
        """Return the present period."""
        return period_of(self.spec.period, now)


@dataclass(frozen=True)
class JobFacts:
    """The facts about a job that limits need; `usd` and `rate` are present values."""

    name: str
    uid: str
    version: str
    created_at: datetime
    spec: TrainingJobSpec = field(hash=False, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    finalizers: tuple[str, ...] = ()
    usd: Usd = NO_USD
    rate: UsdPerHour = NO_RATE
    before: SpendBefore = field(default_factory=SpendBefore)
    forecast_usd: Usd | None = None
    interruption_usd: Usd = NO_USD
    workers: int = 0  # that are not settled: they cost something, or will
    worker_rate: UsdPerHour | None = None  # of a new worker, on the cheapest capacity
    is_stopping: bool = False  # it is suspended, over or deleted, and workers may be left
    is_held: bool = False  # by a SpendLimit, according to its status
    asks: bool = False  # it would start if a SpendLimit allowed it
    is_granted: bool = False  # it is allowed to start, and its workers will come
    is_deleting: bool = False
    is_over: bool = False

    @property
    def least(self) -> int:
        """The fewest workers that can train."""
        return smallest(self.spec.workers)

    @property
    def wanted(self) -> int:
        """The number of workers that the job asks for."""
        return wanted(self.spec.workers)

    @property
    def present_rate(self) -> UsdPerHour:
        """The rate of the job's workers, including those that have no node yet."""
        if not self.workers:
            return NO_RATE
        return max(self.rate, (self.worker_rate or NO_RATE) * self.workers)

    @property
    def order(self) -> tuple[bool, int, datetime, str]:
        """The order in which jobs start."""
        return (not self.is_granted, -self.spec.priority, self.created_at, self.name)

    def end_usd(self, rate: UsdPerHour) -> Usd:
        """Return what a checkpoint and the end of workers of this rate cost at most."""
        return end_usd(self.spec, rate)

    def spent_in(self, period: Period) -> Usd:
        """Return what the job has spent in a period.

        A job that is older than the period counts nothing until its earlier spending is recorded:
        such a job does not run, or the operator is about to look at it.
        """
        if period.start is None or self.created_at >= period.start:
            return self.usd
        known = {
            self.before.month: self.before.month_usd,
            self.before.week: self.before.week_usd,
        }.get(period.start)
        return NO_USD if known is None else max(self.usd - known, NO_USD)

    def closing_usd(self, period: Period) -> Usd:
        """Return what a deleted job has spent, and may still spend while its workers end."""
        return self.spent_in(period) + self.rate.over(grace_seconds_of(self.spec))


def useful_usd(rate: UsdPerHour) -> Usd:
    """Return the money for the shortest work that is worth a start."""
    return (rate * HEADROOM).over(USEFUL_SECONDS)


def unsettled(status: JobState) -> int:
    """Return the number of workers that cost something, or will."""
    return max((status.next_worker_id or 0) - status.settled.size, 0)


def spent_by(cost: Cost, now: datetime) -> Usd:
    """Return what a job has spent by now: its status may be a minute old."""
    storage = cost.storage.usd if cost.storage is not None else None
    spent = (cost.usd or NO_USD) + (storage or NO_USD)
    if not cost.usd_per_hour or cost.as_of is None:
        return spent
    return spent + cost.usd_per_hour.over(max(seconds_between(cost.as_of, now), Decimal(0)))


def facts_of(
    spec: TrainingJobSpec,
    status: JobState,
    now: datetime,
    *,
    name: str,
    uid: str,
    version: str,
    created_at: datetime,
    is_deleting: bool = False,
    labels: Mapping[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
) -> JobFacts:
    """Return the facts from a job's spec and status."""
    cost, by = status.cost, status.suspended_by or ()
    is_over = status.phase in FINISHED
    workers = unsettled(status)
    return JobFacts(
        name=name,
        uid=uid,
        version=version,
        created_at=created_at,
        spec=spec,
        labels=labels or {},
        finalizers=finalizers,
        usd=spent_by(cost, now),
        rate=cost.usd_per_hour or NO_RATE,
        before=status.accumulators.spend_before or SpendBefore(),
        forecast_usd=cost.forecast_usd,
        interruption_usd=cost.interruption_usd or NO_USD,
        workers=workers,
        is_stopping=bool(by) or is_over or is_deleting,
        is_held=SuspendedBy.SPEND_LIMIT in by,
        asks=by == (SuspendedBy.SPEND_LIMIT,)
        and not (workers or spec.suspend or is_over or is_deleting),
        is_deleting=is_deleting,
        is_over=is_over,
    )
