"""Which nodes of a job have workers of other jobs as well. Pure.

Pods of others than jobs are not watched, so what they take of a node is not known.
"""

from collections.abc import Callable, Iterable

from spotrun.decide.snapshot import JobSnapshot
from spotrun.observe.objects import PodObject
from spotrun.observe.pool_objects import is_over


def shared_nodes(job: JobSnapshot, pods_on: Callable[[str], Iterable[PodObject]]) -> frozenset[str]:
    """The names of those nodes."""
    nodes = {worker.pod.node for worker in job.workers if worker.pod.node is not None}
    return frozenset(
        name
        for name in nodes
        if any(pod.metadata.owner_uid != job.uid and not is_over(pod) for pod in pods_on(name))
    )
