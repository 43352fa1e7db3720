"""The part of a TrainingJob that can be replayed, and a description of the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from math import inf

from spotrun.api.field_types.amounts import PositiveAmount
from spotrun.api.field_types.text_values import Duration, PositiveDuration, Time
from spotrun.api.spec.limits import Budget, Deadline, OnExceeded
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.api.spec.workers import Scaling, ScalingMode
from spotrun.api.status import TrainingJobStatus
from spotrun.api.trainingjob import TrainingJob, TrainingJobSpec
from spotrun.money.units import NO_USD, Usd
from spotrun.simulate.estimate.storage import Saves
from spotrun.simulate.scenario import Job
from spotrun.simulate.snapshot import TEMPLATE
from spotrun.state import sizes

_HOUR = 3600.0
_LONGEST_SECONDS = 1_000_000 * _HOUR  # the limit of a Duration


@dataclass(frozen=True)
class Replayed:
    """A job as it is replayed."""

    name: str
    job: Job
    checkpoint_seconds: float  # inf: there is no place for checkpoints
    max_cost_usd: Decimal | None
    left_usd: Decimal | None  # of that amount; 0 only if the budget only warns
    left_out: tuple[str, ...]
    saves: Saves | None = None  # its checkpoints in an object store and their price, if known


def replayed(
    job: TrainingJob,
    *,
    work_hours: float | None,
    checkpoint_seconds: float,
    now: datetime,
) -> Replayed:
    """Return the job to replay; raises ValueError if work, time or money is used up or unknown.

    `checkpoint_seconds` is the interval to assume if the job lets the operator choose it.
    """
    spec = job.spec
    full = _full_size(spec)
    deadline = _deadline_seconds(job, now)
    every = _checkpoint_seconds(spec, checkpoint_seconds)
    budget, left = spec.budget, _left(job)
    return Replayed(
        name=job.metadata.name or "the job",
        job=Job(
            work_seconds=_work_seconds(job.status, work_hours, full),
            deadline_seconds=deadline,
            workers=full,
            min_workers=sizes.smallest(spec.workers),
            max_workers=full,
            spec=_spec(spec, full, deadline, left),
        ),
        checkpoint_seconds=every,
        max_cost_usd=budget.max_cost_usd.decimal if budget and budget.max_cost_usd else None,
        left_usd=left.decimal if left is not None else None,
        left_out=tuple(_left_out(spec, full, every)),
    )


def _full_size(spec: TrainingJobSpec) -> int:
    """Return the number of workers it wants; recordings do not show what utilization justifies."""
    if spec.scaling_mode is ScalingMode.MANUAL:
        return sizes.wanted(spec.workers)
    return sizes.largest(spec.workers, spec.workers.max)


def _work_seconds(status: TrainingJobStatus | None, given: float | None, full: int) -> float:
    if given is not None:
        return given * _HOUR
    progress, pace = (status.progress, status.pace) if status is not None else (None, None)
    if progress is None or progress.total_steps is None or pace is None:
        raise ValueError(
            "the amount of work is unknown, because the job has no status with the number of steps "
            "and the duration of a step: give --work-hours"
        )
    if pace.step_seconds is None or not pace.workers:
        raise ValueError("the status does not say yet how long a step takes: give --work-hours")
    steps = progress.total_steps - (progress.step or 0)
    if steps <= 0:
        raise ValueError("there is nothing to estimate, because all steps are done")
    return steps * float(pace.step_seconds.decimal) * pace.workers / full


def _deadline_seconds(job: TrainingJob, now: datetime) -> float:
    """Return the time left until the deadline; inf if there is none."""
    deadline = job.spec.deadline
    if deadline is None:
        return inf
    if deadline.finish_before is not None:
        left = (deadline.finish_before.datetime - now).total_seconds()
    else:
        assert deadline.finish_within is not None, "one of the two fields is given"
        left = deadline.finish_within.seconds - _passed_seconds(job, now)
    left = round(left, 3)  # the precision of a duration
    if left >= _LONGEST_SECONDS:
        raise ValueError(
            f"the deadline is {left / _HOUR:,.0f} h from now, but the longest duration is "
            f"{_LONGEST_SECONDS / _HOUR:,.0f} h: leave spec.deadline out"
        )
    if left <= 0:
        raise ValueError(f"the deadline was {Duration.of(-left)} ago: no time is left")
    return left


def _passed_seconds(job: TrainingJob, now: datetime) -> float:
    """Return the time since its creation; 0 for a job that does not exist yet."""
    created = job.metadata.creation_timestamp
    if created is None:
        return 0.0
    try:
        return (now - Time(created).datetime).total_seconds()
    except ValueError as error:
        raise ValueError(f"metadata.creationTimestamp: {error}") from None


def _left(job: TrainingJob) -> Usd | None:
    """Return the rest of the budget; None if there is no limit."""
    budget, status = job.spec.budget, job.status
    if budget is None or budget.max_cost_usd is None:
        return None
    cost = status.cost if status is not None else None
    spent = Usd.of(cost.usd if cost is not None else None)
    if cost is not None and cost.storage is not None:
        spent += Usd.of(cost.storage.usd)
    limit = Usd.of(budget.max_cost_usd)
    if spent >= limit and budget.on_exceeded is not OnExceeded.WARN:
        raise ValueError(
            f"{spent} of its budget of {limit} are spent: no money is left, so set "
            "budget.maxCostUsd above that"
        )
    return max(limit - spent, NO_USD)


def _checkpoint_seconds(spec: TrainingJobSpec, by_default: float) -> float:
    if spec.checkpoint is None or not spec.checkpoint.outlives_pods:
        return inf
    every = spec.checkpoint.every.duration
    return every.seconds if every is not None else by_default


def _spec(spec: TrainingJobSpec, full: int, deadline: float, left: Usd | None) -> TrainingJobSpec:
    """Return the spec for a market in which each worker fills a node."""
    workers = spec.workers.having(template=TEMPLATE, replicas=full)
    due = None
    if spec.deadline is not None:
        within = PositiveDuration(Duration.of(deadline))
        due = Deadline(finish_within=within, on_missed=spec.deadline.on_missed)
    return TrainingJobSpec(
        workers=workers,
        scaling=Scaling(mode=ScalingMode.MANUAL),
        placement=spec.placement.having(pool_selector=None),
        deadline=due,
        budget=_budget(spec.budget, left),
        checkpoint=spec.checkpoint,
    )


def _budget(budget: Budget | None, left: Usd | None) -> Budget | None:
    """Return the budget of a replay; a budget that only warns reserves nothing."""
    if budget is None or not left:
        return budget
    return budget.having(max_cost_usd=PositiveAmount.of(left.decimal))


def _left_out(spec: TrainingJobSpec, full: int, every: float) -> Iterator[str]:
    yield "each worker is assumed to fill a node of the market, whatever it requests"
    if spec.scaling_mode is ScalingMode.AUTO:
        yield (
            "scaling is Auto, but recordings do not contain utilization: the size is assumed to be "
            f"{full} whenever that many nodes are available"
        )
    if every == inf and spec.placement.capacity is not CapacityPolicy.ON_DEMAND:
        yield (
            "no checkpoint outlives the pods: if all workers are lost at once, the job begins again"
        )
    if spec.schedule is not None:
        yield "the schedule is ignored: the job trains at all hours"
    if spec.idle is not None:
        yield "idle.suspendAfter is ignored: recordings do not contain what workers use"
    if spec.placement.pool_selector is not None:
        yield "placement.poolSelector is ignored: recorded pools have no labels"
    if spec.suspend:
        yield "suspend is ignored"
