"""The storage format of the training's progress, a part of what `codec.py` reads and writes."""

from collections.abc import Mapping

from spotrun.api import status as api
from spotrun.api.field_types.amounts import Measured
from spotrun.api.field_types.text_values import Time
from spotrun.api.status_parts.local_checkpoint import LocalCheckpoint as StoredLocal
from spotrun.api.status_parts.metric_course import MetricCourse as StoredCourse
from spotrun.api.status_parts.saving_plan import SavingPlan as StoredPlan
from spotrun.api.status_parts.stage_status import StageStatus
from spotrun.money.units import Usd
from spotrun.state.stored.optional_values import decimal_of, digits_of, moment_of, time_of
from spotrun.state.stored.training import (
    NO_COURSE,
    NO_PACE,
    NO_PROGRESS,
    AcknowledgedCheckpoint,
    BatchChange,
    LocalCheckpoint,
    MetricCourse,
    Pace,
    Progress,
    SavingPlan,
    StageState,
)
from spotrun.wire import Metric, value_of_text, value_text


def read_progress(stored: api.Progress | None) -> Progress:
    """Read the progress of the training."""
    if stored is None:
        return NO_PROGRESS
    return Progress(
        step=stored.step,
        total_steps=stored.total_steps,
        percent=stored.percent,
        samples_per_second=decimal_of(stored.samples_per_second),
        eta=moment_of(stored.eta),
    )


def write_progress(progress: Progress) -> api.Progress | None:
    """Write the progress of the training; None if no worker has reported it."""
    if progress == NO_PROGRESS:
        return None
    return api.Progress.model_construct(
        step=progress.step,
        total_steps=progress.total_steps,
        percent=progress.percent,
        samples_per_second=digits_of(progress.samples_per_second),
        eta=time_of(progress.eta),
    )


def read_metrics(stored: Mapping[str, api.Metric] | None) -> tuple[Metric, ...]:
    """Read what the script has measured."""
    found = (stored or {}).items()
    return tuple(Metric(name, value_of_text(one.value), one.step) for name, one in sorted(found))


def write_metrics(metrics: tuple[Metric, ...]) -> dict[str, api.Metric] | None:
    """Write what the script has measured; None where it has reported nothing."""
    written = {
        one.name: api.Metric.model_construct(
            value=Measured(value_text(one.value)), step=one.step or 0
        )
        for one in metrics
    }
    return written or None


def read_course(stored: StoredCourse | None) -> MetricCourse:
    """Read the course of a metric that decides about an end."""
    if stored is None:
        return NO_COURSE
    return MetricCourse(
        metric=stored.metric,
        best=value_of_text(stored.best) if stored.best is not None else None,
        best_step=stored.best_step,
        step=stored.step,
        no_better_reports=stored.no_better_reports,
        decided_at=moment_of(stored.decided_at),
        reason=stored.reason,
        message=stored.message,
    )


def write_course(course: MetricCourse) -> StoredCourse | None:
    """Write the course of a metric; None where no value was judged."""
    if course == NO_COURSE:
        return None
    return StoredCourse.model_construct(
        metric=course.metric,
        best=Measured(value_text(course.best)) if course.best is not None else None,
        best_step=course.best_step,
        step=course.step,
        no_better_reports=course.no_better_reports,
        decided_at=time_of(course.decided_at),
        reason=course.reason,
        message=course.message,
    )


def read_stage(stored: StageStatus | None) -> StageState | None:
    """Read the stage that trains."""
    if stored is None:
        return None
    return StageState(
        name=stored.name,
        index=stored.index,
        since_step=stored.since_step,
        since=stored.since.datetime,
        course=read_course(stored.stop_when),
        ends_since=moment_of(stored.ends_since),
        why=stored.why,
    )


def write_stage(stage: StageState | None) -> StageStatus | None:
    """Write the stage that trains; None where there are no stages."""
    if stage is None:
        return None
    return StageStatus.model_construct(
        name=stage.name,
        index=stage.index,
        since_step=stage.since_step,
        since=Time.of(stage.since),
        stop_when=write_course(stage.course),
        ends_since=time_of(stage.ends_since),
        why=stage.why,
    )


def read_checkpoint(stored: api.CheckpointStatus | None) -> AcknowledgedCheckpoint | None:
    """Read which checkpoint was acknowledged."""
    if stored is None:
        return None
    return AcknowledgedCheckpoint(stored.name, stored.step, stored.time.datetime, stored.orders)


def write_checkpoint(saved: AcknowledgedCheckpoint | None) -> api.CheckpointStatus | None:
    """Write which checkpoint was acknowledged."""
    if saved is None:
        return None
    return api.CheckpointStatus.model_construct(
        name=saved.name, step=saved.step, time=Time.of(saved.time), orders=saved.orders
    )


def read_local_checkpoint(stored: StoredLocal | None) -> LocalCheckpoint | None:
    """Read which step the local tier has."""
    return None if stored is None else LocalCheckpoint(stored.step, stored.time.datetime)


def write_local_checkpoint(kept: LocalCheckpoint | None) -> StoredLocal | None:
    """Write which step the local tier has; None where it has none."""
    if kept is None:
        return None
    return StoredLocal.model_construct(step=kept.step, time=Time.of(kept.time))


def read_saving(stored: StoredPlan | None) -> SavingPlan | None:
    """Read how often the job saves."""
    if stored is None:
        return None
    return SavingPlan(
        every_seconds=stored.every_seconds,
        keep=stored.keep,
        usd_per_month=Usd.of(stored.usd_per_month),
        lost_work_usd_per_month=Usd.of(stored.lost_work_usd_per_month),
        within_budget=stored.within_budget,
        why=stored.why,
    )


def write_saving(plan: SavingPlan | None) -> StoredPlan | None:
    """Write how often the job saves; None if the operator does not choose that."""
    if plan is None:
        return None
    return StoredPlan.model_construct(
        every_seconds=plan.every_seconds,
        keep=plan.keep,
        usd_per_month=plan.usd_per_month.amount,
        lost_work_usd_per_month=plan.lost_work_usd_per_month.amount,
        within_budget=plan.within_budget,
        why=plan.why,
    )


def read_batch_change(stored: api.BatchChange | None) -> BatchChange | None:
    """Read the last change of size of a script without `Run`."""
    if stored is None:
        return None
    when = stored.time.datetime
    return BatchChange(when, stored.from_workers, stored.to_workers, stored.message)


def write_batch_change(change: BatchChange | None) -> api.BatchChange | None:
    """Write the last change of size of a script without `Run`; None where there was none."""
    if change is None:
        return None
    return api.BatchChange.model_construct(
        time=Time.of(change.time),
        from_workers=change.from_workers,
        to_workers=change.to_workers,
        message=change.message,
    )


def read_pace(stored: api.Pace | None) -> Pace:
    """Read what was measured."""
    if stored is None:
        return NO_PACE
    return Pace(
        step_seconds=decimal_of(stored.step_seconds),
        workers=stored.workers,
        changeovers=stored.changeovers or (),
        measured=stored.measured,
    )


def write_pace(pace: Pace) -> api.Pace | None:
    """Write what was measured; None where nothing was."""
    if pace == NO_PACE:
        return None
    return api.Pace.model_construct(
        step_seconds=digits_of(pace.step_seconds),
        workers=pace.workers,
        changeovers=pace.changeovers or None,
        measured=pace.measured,
    )
