"""Nodes that a job shares with workers of other jobs. Pure.

Pods that are not workers are not watched, so their share of a node is unknown.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from spotrun.api.names import FINALIZER_METERED
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.pools.objects import is_over
from spotrun.observe.resources import devices_of
from spotrun.state.snapshot import JobSnapshot, Node, Worker

PodsOn = Callable[[str], Iterable[PodObject]]

MOST_DEVICES = 64
"""The most devices that count for a worker of another job: `workers.processes` has the same
maximum."""


def with_claimed_devices(
    job: JobSnapshot, pods_on: PodsOn, is_worker: Callable[[PodObject], bool]
) -> JobSnapshot:
    """Give nodes without counted GPUs as many devices as workers claim there (DRA).

    So the workers that claim devices pay for the whole node together, each for its part of the
    devices. A user who may change pods can write another number on one: so a worker of this job
    counts with at least the number of its template, and other pods only count if `is_worker` knows
    them.
    """
    workers = tuple(_claiming(job, worker) for worker in job.workers)
    if not any(worker.pod.requests.claimed for worker in workers):
        return job
    nodes = {worker.node.name: worker.node for worker in workers if worker.node is not None}
    own = Counter[str]()
    for worker in workers:
        if worker.node is not None and worker.pod.metered:
            own[worker.node.name] += worker.pod.requests.claimed
    counted = {}
    for name, node in nodes.items():
        others = (pod for pod in pods_on(name) if pod.metadata.owner_uid != job.uid)
        counted[name] = _counted(node, own[name], filter(is_worker, others))
    on_counted = (
        worker if worker.node is None else replace(worker, node=counted[worker.node.name])
        for worker in workers
    )
    return replace(job, workers=tuple(on_counted))


def _claiming(job: JobSnapshot, worker: Worker) -> Worker:
    pod = worker.pod
    if pod.requests.claimed >= job.claimed or pod.template != job.template:
        return worker
    requests = replace(pod.requests, claimed=job.claimed)
    return replace(worker, pod=replace(pod, requests=requests))


def _counted(node: Node, own: int, others: Iterable[PodObject]) -> Node:
    if node.allocatable is None or node.allocatable.gpus:
        return node
    held = (pod for pod in others if FINALIZER_METERED in pod.metadata.finalizers)
    claimed = own + sum(min(devices_of(pod), MOST_DEVICES) for pod in held)
    return replace(node, allocatable=replace(node.allocatable, claimed=claimed))


def shared_nodes(job: JobSnapshot, pods_on: PodsOn) -> frozenset[str]:
    """The names of the nodes that also have workers of other jobs."""
    nodes = {worker.pod.node for worker in job.workers if worker.pod.node is not None}
    return frozenset(
        name
        for name in nodes
        if any(pod.metadata.owner_uid != job.uid and not is_over(pod) for pod in pods_on(name))
    )
