"""Jobs, and what belongs to them, read from a cluster."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from spotrun.api.names import LABEL_JOB
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import is_missing, no_such_job
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.jobs.screens.detail import MOST_WORKERS, Facts
from spotrun.cli.jobs.workers import Place, place_of
from spotrun.kube.errors import Forbidden, NotFound
from spotrun.kube.rest.client import Selection
from spotrun.observe.kube_objects import (
    CAPACITY_POOLS,
    EVENTS,
    NODES,
    PODS,
    TRAINING_JOBS,
    EventObject,
    NodeObject,
    PodObject,
)

T = TypeVar("T")


async def all_jobs(cluster: Cluster) -> tuple[Job, ...]:
    """Read the jobs of the namespace, or of all."""
    return await read_jobs(cluster, Job)


async def read_jobs(cluster: Cluster, as_type: type[T]) -> tuple[T, ...]:
    """Read the same as another type."""
    return await _all(cluster, Selection(TRAINING_JOBS, cluster.scope), as_type)


async def one_job(cluster: Cluster, name: str) -> Job:
    """Read a job; raises NoSuchJob with similar names."""
    return await read_job(cluster, name, Job)


async def read_job(cluster: Cluster, name: str, as_type: type[T]) -> T:
    """Read the same as another type."""
    try:
        return await cluster.client.get(TRAINING_JOBS, name, as_type, namespace=cluster.namespace)
    except NotFound as error:
        if not is_missing(error, name):
            raise
        others = await _names_around(cluster)
        raise no_such_job(name, cluster.namespace, others) from None


async def pods_of(cluster: Cluster, name: str) -> tuple[PodObject, ...]:
    """Read the pods of a job's workers."""
    chosen = Selection(PODS, cluster.namespace, label_selector=f"{LABEL_JOB}={name}")
    return await _all(cluster, chosen, PodObject)


async def shown_pods(cluster: Cluster, name: str) -> tuple[PodObject, ...]:
    """Read the same for a screen; none if that is forbidden, because the job says most."""
    try:
        return await pods_of(cluster, name)
    except Forbidden:
        return ()


async def all_pools(cluster: Cluster) -> tuple[Pool, ...]:
    """Read the CapacityPools; raises KubeError."""
    return await _all(cluster, Selection(CAPACITY_POOLS), Pool)


async def pools(cluster: Cluster) -> tuple[Pool, ...]:
    """Read the CapacityPools; none if that is forbidden, because they only explain more."""
    try:
        return await all_pools(cluster)
    except (Forbidden, NotFound):
        return ()


async def events_of(cluster: Cluster, job: Job) -> tuple[EventObject, ...]:
    """Read the events of a job, oldest first; none if that is forbidden."""
    return _about(job, await _events_named(cluster, job.metadata.name))


def _about(job: Job, events: Sequence[EventObject]) -> tuple[EventObject, ...]:
    """Return the events of this job, not of an earlier one with the same name."""
    return tuple(one for one in events if one.regarding.uid == job.metadata.uid)


async def _events_named(cluster: Cluster, name: str) -> tuple[EventObject, ...]:
    fields = f"regarding.kind=TrainingJob,regarding.name={name}"
    chosen = Selection(EVENTS, cluster.namespace, field_selector=fields)
    try:
        found = await _all(cluster, chosen, EventObject)
    except (Forbidden, NotFound):
        return ()
    return tuple(sorted(found, key=lambda event: event.event_time or ""))


async def places_of(cluster: Cluster, pods: Sequence[PodObject]) -> dict[str, Place]:
    """Read where the nodes of pods are; nothing if nodes may not be read, as by most users."""
    try:
        return await read_places(cluster, pods)
    except Forbidden:
        return {}


async def read_places(cluster: Cluster, pods: Sequence[PodObject]) -> dict[str, Place]:
    """Read the same; raises KubeError. A node that is gone is left out."""
    names = list(dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name))
    found: dict[str, Place] = {}
    for some in (names[:1], names[1:MOST_WORKERS]):  # the first one shows whether it is allowed
        nodes = await asyncio.gather(*(_node(cluster, name) for name in some))
        found |= {node.metadata.name: place_of(node) for node in nodes if node is not None}
    return found


async def everything_of(cluster: Cluster, name: str) -> Facts:
    """Read a job with its pods, the pools and its events, at once."""
    job, pods, found, events = await asyncio.gather(
        one_job(cluster, name),
        shown_pods(cluster, name),
        pools(cluster),
        _events_named(cluster, name),
    )
    return Facts(job, pods, found, _about(job, events), await places_of(cluster, pods))


async def _node(cluster: Cluster, name: str) -> NodeObject | None:
    try:
        return await cluster.client.get(NODES, name, NodeObject)
    except NotFound:  # it was taken away
        return None


async def _names_around(cluster: Cluster) -> list[tuple[str, str]]:
    """Return namespaces and names of jobs, of all namespaces if these may be listed."""
    for scope in (None, cluster.namespace):
        try:
            found = await _all(cluster, Selection(TRAINING_JOBS, scope), Job)
        except Forbidden:
            continue
        return [(job.metadata.namespace, job.metadata.name) for job in found]
    return []


async def _all(cluster: Cluster, chosen: Selection, as_type: type[T]) -> tuple[T, ...]:
    return (await cluster.client.list_all(chosen, as_type)).items
