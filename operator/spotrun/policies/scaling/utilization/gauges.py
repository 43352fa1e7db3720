"""The use of each resource that has a target, as far as workers report it."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from spotrun.api.spec.workers import Target, TargetResource
from spotrun.policies.scaling.facts import Gauge
from spotrun.state.snapshot import JobSnapshot, Reading, Worker
from spotrun.wire import Utilization

_NAMES = {TargetResource.CPU: "cpu", TargetResource.MEMORY: "memory"}  # as containers limit them


def gauges(job: JobSnapshot, members: Sequence[Worker]) -> tuple[Gauge, ...]:
    """Return one gauge for each target."""
    return tuple(_gauge(target, job, members) for target in targets(job))


def readings(members: Iterable[Worker]) -> list[Reading]:
    """Return the readings of the workers that have reported anything."""
    return [w.agent.reading for w in members if w.agent is not None and w.agent.reading is not None]


def targets(job: JobSnapshot) -> tuple[Target, ...]:
    """Return the targets that the user gives, or the default one."""
    if job.spec.scaling.targets:
        return job.spec.scaling.targets
    resource = TargetResource.GPU if job.requests.devices else TargetResource.CPU
    return (Target(resource=resource),)


def _gauge(target: Target, job: JobSnapshot, members: Sequence[Worker]) -> Gauge:
    shares = (_share(target.resource, job, worker) for worker in members)
    known = tuple(share for share in shares if share is not None)
    return Gauge(
        resource=target.resource,
        target=target.utilization_percent / 100,
        tolerance=target.tolerance_percent / 100,
        reported=known,
        silent=len(members) - len(known),
    )


def _share(resource: TargetResource, job: JobSnapshot, worker: Worker) -> float | None:
    if worker.used is not None:
        return used_by_pod(resource, worker.used)
    reading = worker.agent.reading if worker.agent is not None else None
    if reading is None or not reading.is_enough:
        return None
    return used_share(resource, job, worker, reading.utilization)


def used_by_pod(resource: TargetResource, used: Utilization) -> float | None:
    """Return the share of limit or request that metrics.k8s.io reports; it knows no GPUs."""
    return None if resource is TargetResource.GPU else getattr(used, _NAMES[resource])


def used_share(
    resource: TargetResource, job: JobSnapshot, worker: Worker, reported: Utilization
) -> float | None:
    """Return the used share of what the worker may use, or requests; None if it does not report."""
    if resource is TargetResource.GPU:
        return reported.gpu
    name = _NAMES[resource]
    share: float | None = getattr(reported, name)
    part = _requested_part(worker, name)
    if share is None or part is None or _is_limited(job, name):
        return share
    return min(share / part, 1.0)


def _requested_part(worker: Worker, name: str) -> float | None:
    """Return the requested share of the node: without a limit agents report the whole node."""
    node = worker.node.allocatable if worker.node is not None else None
    if node is None:
        return None
    whole: Decimal = getattr(node, name)
    part: Decimal = getattr(worker.pod.requests, name)
    return float(part / whole) if part > 0 and whole > 0 else None


def _is_limited(job: JobSnapshot, name: str) -> bool:
    trainer = job.spec.workers.template.spec.trainer
    resources = (trainer.model_extra or {}).get("resources") if trainer is not None else None
    limits = resources.get("limits") if isinstance(resources, dict) else None
    return isinstance(limits, dict) and name in limits
