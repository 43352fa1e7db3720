"""Counters of preemptions: which jobs gave way to which, and the estimated cost of that."""

from prometheus_client import CollectorRegistry, Counter

from spotrun.policies.placement.queueing.giving_way import began_to_give
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot

_LABELS = ("namespace", "by_namespace")


class PreemptionCounts:
    """Counts stored decisions that a job gives way; each replica begins at zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._jobs = Counter(
            "spotrun_preemptions",
            "Times that jobs were made to give workers to one of higher priority.",
            (*_LABELS, "how"),
            registry=registry,
        )
        self._usd = Counter(
            "spotrun_preemption_cost_usd",
            "Price of these interruptions when they were decided: unsaved work and restarts.",
            _LABELS,
            registry=registry,
        )

    def count(self, job: JobSnapshot, status: JobState) -> None:
        """Count a job that begins to give way by its next status."""
        given, order = began_to_give(job.status, status), job.precedence.order
        if given is None or order is None:
            return
        labels = (job.namespace, given.to.partition("/")[0])
        self._jobs.labels(*labels, "shrunk" if given.workers else "suspended").inc()
        self._usd.labels(*labels).inc(float(order.usd.exact))
