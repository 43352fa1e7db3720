"""The share of its CPU and memory that a worker uses, from metrics.k8s.io. Pure."""

from decimal import Decimal

from spotrun.money.shares import NOTHING, Resources
from spotrun.observe.containers import trainer_of
from spotrun.observe.kube_objects import ContainerSpec, PodMetricsObject, PodObject
from spotrun.observe.resources import resources_of
from spotrun.wire import Utilization


def allowance(pod: PodObject) -> Resources:
    """Return the limits of the container that trains, else its requests, else zero."""
    trainer = _trainer(pod)
    if trainer is None:
        return NOTHING
    return resources_of({**trainer.resources.requests, **trainer.resources.limits})


def utilization(pod: PodObject, measured: PodMetricsObject) -> Utilization:
    """Return the used share of each resource; None for a resource without an allowance."""
    trainer, whole = _trainer(pod), allowance(pod)
    found = (one for one in measured.containers if trainer is not None and one.name == trainer.name)
    usage = next((one.usage for one in found), {})
    used = resources_of(usage)
    return Utilization(
        cpu=_share(used.cpu, whole.cpu) if "cpu" in usage else None,
        memory=_share(used.memory, whole.memory) if "memory" in usage else None,
    )


def _share(used: Decimal, whole: Decimal) -> float | None:
    return min(float(used / whole), 1.0) if whole > 0 else None


def _trainer(pod: PodObject) -> ContainerSpec | None:
    name = trainer_of(pod)
    return next((one for one in pod.spec.containers if one.name == name), None)
