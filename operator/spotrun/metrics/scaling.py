"""Metrics of sizes: the size asked for, the size that trains, utilization, and reasons."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from spotrun.agents.answers import Published
from spotrun.state.stored.scaling import NO_SCALING

_LABELS = ("namespace", "name")


def scaling_families(jobs: Iterable[Published]) -> Iterator[Metric]:
    """Yield the sizes of each job in mode Auto; in mode Manual the operator decides none."""
    workers = GaugeMetricFamily(
        "spotrun_trainingjob_scaling_workers",
        "The justified size, and the size of the world that trains.",
        labels=(*_LABELS, "state"),
    )
    utilization = GaugeMetricFamily(
        "spotrun_trainingjob_utilization_ratio",
        "Used share of each resource with a target; for GPUs the compute share of a step.",
        labels=(*_LABELS, "resource"),
    )
    decisions = CounterMetricFamily(
        "spotrun_trainingjob_scaling_decisions",
        "Decisions about the size by reason, to keep it included.",
        labels=(*_LABELS, "reason"),
    )
    for job in jobs:
        made, world, labels = job.status.scaling, job.status.world, (job.namespace, job.name)
        if made == NO_SCALING:
            continue
        training = len(world.members) if world.is_active else None
        for state, size in (("justified", made.size), ("training", training)):
            if size is not None:
                workers.add_metric((*labels, state), size)
        for resource, share in made.utilization.items():
            utilization.add_metric((*labels, resource), float(share))
        for reason, count in made.decisions.items():
            decisions.add_metric((*labels, reason), count)
    yield from (workers, utilization, decisions)
