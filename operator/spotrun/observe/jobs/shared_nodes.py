"""What workers of other jobs have of a job's nodes. Pure.

Pods of others than jobs are not watched, so what they take of a node is not known.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from spotrun.api.names import FINALIZER_METERED
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.pools.objects import is_over
from spotrun.observe.resources import devices_of
from spotrun.state.snapshot import JobSnapshot, Node

PodsOn = Callable[[str], Iterable[PodObject]]


def with_claimed_devices(job: JobSnapshot, pods_on: PodsOn) -> JobSnapshot:
    """Say of nodes that count no GPUs that they have as many devices as workers claim there (DRA).

    So all that claim some pay for the whole node together, each for its part of the devices.
    """
    if not any(worker.pod.requests.claimed for worker in job.workers):
        return job
    nodes = {worker.node.name: worker.node for worker in job.workers if worker.node is not None}
    counted = {name: _counted(node, pods_on(name)) for name, node in nodes.items()}
    workers = tuple(
        worker if worker.node is None else replace(worker, node=counted[worker.node.name])
        for worker in job.workers
    )
    return replace(job, workers=workers)


def _counted(node: Node, pods: Iterable[PodObject]) -> Node:
    if node.allocatable is None or node.allocatable.gpus:
        return node
    claimed = sum(devices_of(pod) for pod in pods if FINALIZER_METERED in pod.metadata.finalizers)
    return replace(node, allocatable=replace(node.allocatable, claimed=claimed))


def shared_nodes(job: JobSnapshot, pods_on: PodsOn) -> frozenset[str]:
    """The names of the nodes that have workers of other jobs as well."""
    nodes = {worker.pod.node for worker in job.workers if worker.pod.node is not None}
    return frozenset(
        name
        for name in nodes
        if any(pod.metadata.owner_uid != job.uid and not is_over(pod) for pod in pods_on(name))
    )
