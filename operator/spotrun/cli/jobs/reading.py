"""Jobs, and what belongs to them, read from a cluster."""

import asyncio
from typing import TypeVar

from spotrun.api.names import LABEL_JOB
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import no_such_job
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.kube.errors import Forbidden, NotFound
from spotrun.kube.rest.client import Selection
from spotrun.observe.kube_objects import (
    CAPACITY_POOLS,
    EVENTS,
    PODS,
    TRAINING_JOBS,
    EventObject,
    PodObject,
)

T = TypeVar("T")


async def all_jobs(cluster: Cluster) -> tuple[Job, ...]:
    """Read the jobs of the namespace, or of all."""
    return await _all(cluster, Selection(TRAINING_JOBS, cluster.scope), Job)


async def one_job(cluster: Cluster, name: str) -> Job:
    """Read a job; raises NoSuchJob with names like it."""
    try:
        return await cluster.client.get(TRAINING_JOBS, name, Job, namespace=cluster.namespace)
    except NotFound as error:
        if f'"{name}" not found' not in error.message:
            raise
        others = await _names_around(cluster)
        raise no_such_job(name, cluster.namespace, others) from None


async def pods_of(cluster: Cluster, name: str) -> tuple[PodObject, ...]:
    """Read the pods of a job's workers."""
    chosen = Selection(PODS, cluster.namespace, label_selector=f"{LABEL_JOB}={name}")
    return await _all(cluster, chosen, PodObject)


async def pools(cluster: Cluster) -> tuple[Pool, ...]:
    """Read the CapacityPools; none where that is not allowed, for they only explain more."""
    try:
        return await _all(cluster, Selection(CAPACITY_POOLS), Pool)
    except (Forbidden, NotFound):
        return ()


async def events_of(cluster: Cluster, name: str) -> tuple[EventObject, ...]:
    """Read the events of a job, oldest first; none where that is not allowed."""
    fields = f"regarding.kind=TrainingJob,regarding.name={name}"
    chosen = Selection(EVENTS, cluster.namespace, field_selector=fields)
    try:
        found = await _all(cluster, chosen, EventObject)
    except (Forbidden, NotFound):
        return ()
    return tuple(sorted(found, key=lambda event: event.event_time or ""))


async def everything_of(
    cluster: Cluster, name: str
) -> tuple[Job, tuple[PodObject, ...], tuple[Pool, ...], tuple[EventObject, ...]]:
    """Read a job with its pods, the pools and its events, at once."""
    return await asyncio.gather(
        one_job(cluster, name), pods_of(cluster, name), pools(cluster), events_of(cluster, name)
    )


async def _names_around(cluster: Cluster) -> list[tuple[str, str]]:
    """Return namespaces and names of jobs: of all namespaces, where they may be listed."""
    for scope in (None, cluster.namespace):
        try:
            found = await _all(cluster, Selection(TRAINING_JOBS, scope), Job)
        except Forbidden:
            continue
        return [(job.metadata.namespace, job.metadata.name) for job in found]
    return []


async def _all(cluster: Cluster, chosen: Selection, as_type: type[T]) -> tuple[T, ...]:
    return (await cluster.client.list_all(chosen, as_type)).items
