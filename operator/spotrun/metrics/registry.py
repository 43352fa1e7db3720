"""The registry: metrics of this replica's own work, and, from the leader only, of the jobs."""

import importlib.metadata
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from spotrun.agents.answers import Published
from spotrun.api.names import Phase, SuspendedBy
from spotrun.kube.resource import Key
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.metrics.deleted_jobs import DeletedJobs
from spotrun.metrics.money import money_families
from spotrun.metrics.per_job_numbers import by_phase
from spotrun.metrics.pools import KnownPool, Pools
from spotrun.metrics.preemptions import PreemptionCounts
from spotrun.metrics.progress import progress_families
from spotrun.metrics.queues import Queues
from spotrun.metrics.scaling import scaling_families
from spotrun.metrics.searches import Searches
from spotrun.metrics.spending import NamespacedLimit, Spending
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.state.view import FINISHED

MOST_JOBS = 2_000
"""Jobs with series of their own; each has about forty, and Prometheus can hold a million."""

_LABELS = ("namespace", "name")
_DECISION_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_SUGGESTION_SECONDS = (0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60)


class Meter:
    """The metrics of one process; `registry` is what is exposed."""

    def __init__(
        self,
        jobs: Callable[[], Iterable[Published]],
        leads: Callable[[], bool],
        queues: Mapping[str, WorkQueue[Any]] | None = None,
        *,
        most_jobs: int = MOST_JOBS,
        deleted_jobs: DeletedJobs | None = None,
        searches: Callable[[], Iterable[TuningSnapshot]] = tuple,
        pools: Callable[[], Iterable[KnownPool]] = tuple,
        limits: Callable[[], Iterable[NamespacedLimit]] = tuple,
    ) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Jobs(jobs, leads, most_jobs, deleted_jobs))
        self.registry.register(Searches(searches, leads, most_jobs))
        self.registry.register(Pools(pools, leads, most_jobs))
        self.registry.register(Spending(limits, leads, most_jobs))
        self.registry.register(Queues(queues or {}, leads))
        Info("spotrun_build", "The operator's version.", registry=self.registry).info(
            {"version": importlib.metadata.version("spotrun")}
        )
        Gauge("spotrun_leader", "1 where this replica leads.", registry=self.registry).set_function(
            lambda: float(leads())
        )
        self.agent_requests = Counter(
            "spotrun_agent_requests",
            "Requests of agents, by what they asked for and how they were answered.",
            ("what", "status"),
            registry=self.registry,
        )
        self.agent_connections = Gauge(
            "spotrun_agent_connections",
            "Open connections, by whether they have shown a good token.",
            ("state",),
            registry=self.registry,
        )
        self.agent_polls = Gauge(
            "spotrun_agent_polls", "Workers that wait for news.", registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "spotrun_trainingjob_reconcile_duration_seconds",
            "Time from taking a job off the queue until its decision was carried out.",
            buckets=_DECISION_SECONDS,
            registry=self.registry,
        )
        self._reconcile_errors = Counter(
            "spotrun_trainingjob_reconcile_errors",
            "Failures of the work on jobs, or of one write, by what went wrong; it is tried again.",
            ("error",),
            registry=self.registry,
        )

        self.preemptions = PreemptionCounts(self.registry)
        self.suggestion_seconds = Histogram(
            "spotrun_tuningjob_suggestion_duration_seconds",
            "Time to find the values of a search's next trial, failures included.",
            buckets=_SUGGESTION_SECONDS,
            registry=self.registry,
        )

    @contextmanager
    def reconciling(self) -> Iterator[None]:
        """Measure the work on one job, and count it if it fails."""
        with self.reconcile_seconds.time():
            try:
                yield
            except Exception as error:
                self.count_failure(error)
                raise

    def count_failure(self, error: Exception) -> None:
        """Count a failure of the work on a job, or of one write; it is tried again."""
        self._reconcile_errors.labels(type(error).__name__).inc()

    def count_request(self, what: str, status: int) -> None:
        """Count an answered request of an agent."""
        self.agent_requests.labels(what, str(status)).inc()


class _Jobs(Collector):
    """Metrics of jobs, read from status, so that no counter falls when the operator restarts."""

    def __init__(
        self,
        jobs: Callable[[], Iterable[Published]],
        leads: Callable[[], bool],
        most: int,
        deleted_jobs: DeletedJobs | None,
    ) -> None:
        self._jobs = jobs
        self._leads = leads
        self._most = most
        self._deleted_jobs = deleted_jobs

    @override
    def collect(self) -> Iterator[Metric]:
        if not self._leads():
            return
        jobs = sorted(self._jobs(), key=lambda job: (_is_over(job), job.namespace, job.name))
        yield by_phase("spotrun_trainingjobs", "Jobs by phase.", Phase, map(_phase, jobs))
        yield _held(jobs)
        yield GaugeMetricFamily(
            "spotrun_trainingjobs_without_series",
            "Jobs beyond the limit for series of their own; finished ones are left out first.",
            value=max(0, len(jobs) - self._most),
        )
        shown = list(islice(jobs, self._most))
        yield from _families(shown)
        yield from progress_families(shown)
        gone = self._deleted_jobs.instead_of(jobs) if self._deleted_jobs is not None else {}
        others = [job for job in shown if Key(job.namespace, job.name) not in gone]
        yield from money_families([*others, *gone.values()])
        yield from scaling_families(shown)


def _families(jobs: list[Published]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "spotrun_trainingjob_info", "1 for each job, with its phase.", labels=(*_LABELS, "phase")
    )
    workers = GaugeMetricFamily(
        "spotrun_trainingjob_workers",
        "Workers of a job: wanted, running, and running on spot capacity.",
        labels=(*_LABELS, "state"),
    )
    progress = GaugeMetricFamily(
        "spotrun_trainingjob_progress_ratio", "Steps done of steps in all.", labels=_LABELS
    )
    world_number = GaugeMetricFamily(
        "spotrun_trainingjob_world_number", "Worlds the job has had.", labels=_LABELS
    )
    interruptions = CounterMetricFamily(
        "spotrun_trainingjob_interruptions", "Workers taken away.", labels=_LABELS
    )
    failures = CounterMetricFamily(
        "spotrun_trainingjob_failures",
        "Failures counted against failures.maxRestarts; falls when the count starts afresh.",
        labels=_LABELS,
    )
    for job in jobs:
        labels, status = (job.namespace, job.name), job.status
        info.add_metric((*labels, _phase(job).value), 1)
        counts = status.workers
        wanted = counts.allowed.size if counts.allowed is not None else 0
        states = {"desired": wanted, "ready": counts.running or 0, "spot": counts.spot or 0}
        for state, number in states.items():
            workers.add_metric((*labels, state), number)
        if (made := status.progress).step is not None and made.total_steps:
            progress.add_metric(labels, min(1.0, made.step / made.total_steps))
        if status.world.number:
            world_number.add_metric(labels, status.world.number)
        interruptions.add_metric(labels, status.interruptions.count)
        failures.add_metric(labels, status.restarts.count)
    yield from (info, workers, progress, world_number, interruptions, failures)


def _held(jobs: list[Published]) -> Metric:
    """Return how many jobs each holder keeps from training; a job may have several."""
    found = Counts(
        who for job in jobs if not _is_over(job) for who in job.status.suspended_by or ()
    )
    held = GaugeMetricFamily(
        "spotrun_trainingjobs_held", "Suspended jobs by what holds them back.", labels=("by",)
    )
    for who in SuspendedBy:
        held.add_metric((who.value,), found[who])
    return held


def _phase(job: Published) -> Phase:
    return job.status.phase or Phase.PENDING


def _is_over(job: Published) -> bool:
    return _phase(job) in FINISHED
