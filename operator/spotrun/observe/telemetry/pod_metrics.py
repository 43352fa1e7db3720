"""What a worker uses of what it may use, as metrics.k8s.io says. Pure."""

from decimal import Decimal

from spotrun.money.shares import Resources
from spotrun.observe.containers import trainer_of
from spotrun.observe.kube_objects import ContainerSpec, PodMetricsObject, PodObject
from spotrun.observe.resources import NOTHING, resources_of
from spotrun.wire import Utilization


def allowance(pod: PodObject) -> Resources:
    """What the container that trains may use: its limits, else its requests; nothing: neither."""
    trainer = _trainer(pod)
    if trainer is None:
        return NOTHING
    return resources_of({**trainer.resources.requests, **trainer.resources.limits})


def utilization(pod: PodObject, told: PodMetricsObject) -> Utilization:
    """Which share it uses of that; None for what has nothing to be a share of."""
    trainer, whole = _trainer(pod), allowance(pod)
    found = (one for one in told.containers if trainer is not None and one.name == trainer.name)
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
