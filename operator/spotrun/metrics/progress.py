"""Metrics of a job's progress: its steps, its checkpoints, and its workers' places."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from spotrun.agents.answers import Published
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType
from spotrun.metrics.per_job_numbers import Figure, families
from spotrun.state.conditions import holds_since

LABELS = ("namespace", "name")


def progress_families(jobs: Iterable[Published]) -> Iterator[Metric]:
    """Yield steps, checkpoints, conditions and worker counts of each job."""
    known = list(jobs)
    yield from families(_FIGURES, LABELS, [((job.namespace, job.name), job) for job in known])
    yield _conditions(known)
    yield _placed(known)
    yield _metrics(known)


def _step(job: Published) -> float:
    """Return the step, 0 before the first, so that a job without any step has a series too."""
    return job.status.progress.step or 0


def _samples_per_second(job: Published) -> float | None:
    rate = job.status.progress.samples_per_second
    return float(rate) if rate is not None else None


def _redone_steps(job: Published) -> float:
    return job.status.interruptions.lost_steps


def _checkpoint_step(job: Published) -> float | None:
    """Return the checkpoint's step; None if the job has no place for checkpoints."""
    saved = job.status.checkpoint
    if saved is not None:
        return saved.step
    return 0 if job.saves else None


def _local_step(job: Published) -> float | None:
    kept = job.status.local_checkpoint
    return kept.step if kept is not None else None


def _local_time(job: Published) -> float | None:
    kept = job.status.local_checkpoint
    return kept.time.timestamp() if kept is not None else None


def _queued_since(job: Published) -> float | None:
    since = holds_since(job.status, ConditionType.QUEUED)
    return since.timestamp() if since is not None else None


def _checkpoint_time(job: Published) -> float | None:
    saved = job.status.checkpoint
    return saved.time.timestamp() if saved is not None else None


_FIGURES: tuple[Figure[Published], ...] = (
    Figure(
        "step",
        "The last step that every rank committed, 0 before the first; falls when steps are lost.",
        False,
        _step,
    ),
    Figure(
        "queued_timestamp_seconds",
        "Time since which the job waits for a queue, for quota or for nodes, in seconds since "
        "1970; none while it does not.",
        False,
        _queued_since,
    ),
    Figure("samples_per_second", "Recent samples trained per second.", False, _samples_per_second),
    Figure("redone_steps", "Steps done again after a loss.", True, _redone_steps),
    Figure(
        "checkpoint_step",
        "The step that the newest acknowledged checkpoint holds, 0 before the first.",
        False,
        _checkpoint_step,
    ),
    Figure(
        "checkpoint_timestamp_seconds",
        "Time at which the newest checkpoint was acknowledged, in seconds since 1970.",
        False,
        _checkpoint_time,
    ),
    Figure(
        "local_checkpoint_step",
        "The newest step that the workers' local tier holds; none without one.",
        False,
        _local_step,
    ),
    Figure(
        "local_checkpoint_timestamp_seconds",
        "Time at which the operator heard of that step, in seconds since 1970.",
        False,
        _local_time,
    ),
)


def _conditions(jobs: Iterable[Published]) -> Metric:
    family = GaugeMetricFamily(
        "spotrun_trainingjob_condition",
        "1 where a condition of status.conditions is True, 0 where it is False.",
        labels=(*LABELS, "condition"),
    )
    for job in jobs:
        for condition in job.status.conditions:
            if condition.status is not ConditionStatus.UNKNOWN:
                holds = condition.status is ConditionStatus.TRUE
                family.add_metric((job.namespace, job.name, condition.type), float(holds))
    return family


def _placed(jobs: Iterable[Published]) -> Metric:
    family = GaugeMetricFamily(
        "spotrun_trainingjob_placed_workers",
        "Workers that run, by the CapacityPool of their node (empty: none) and its capacity.",
        labels=(*LABELS, "pool", "capacity"),
    )
    for job in jobs:
        for (pool, capacity), number in sorted(job.placed.items()):
            family.add_metric((job.namespace, job.name, pool, capacity), number)
    return family


def _metrics(jobs: Iterable[Published]) -> Metric:
    family = GaugeMetricFamily(
        "spotrun_trainingjob_metric",
        "The newest value of what a job's script has reported, such as its loss.",
        labels=(*LABELS, "metric"),
    )
    for job in jobs:
        for metric in job.metrics:
            family.add_metric((job.namespace, job.name, metric.name), metric.value)
    return family
