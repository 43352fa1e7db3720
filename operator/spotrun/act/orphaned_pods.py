"""Pods whose job is no more: they are not held back by us.

They are work of their own: neither does a job of the same name wait for them, nor they for it.
"""

import asyncio
from collections.abc import Iterable

from spotrun.act.executor import Executor
from spotrun.kube.errors import NotFound
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.orphans import Orphan
from spotrun.observe.kube_objects import TRAINING_JOBS, JobObject


async def let_go(client: Client, executor: Executor, job: Key, orphans: Iterable[Orphan]) -> None:
    """Take our finalizer off the pods of former jobs of a name, side by side.

    Raises the KubeError of one that could not be let go of, once all were tried. The cache of jobs
    may be behind that of pods, so the API server has the last word.
    """
    found = tuple(orphans)
    if not found:
        return
    live_uid = await _uid_of(client, job)
    # `kubectl delete --cascade=orphan` leaves pods without an owner.
    dead = (pod for pod in found if live_uid is None or pod.owner_uid != live_uid)
    tries = (executor.strip(job, pod) for pod in dead)
    for result in await asyncio.gather(*tries, return_exceptions=True):
        if result is not None:
            raise result


async def _uid_of(client: Client, key: Key) -> str | None:
    try:
        job = await client.get(TRAINING_JOBS, key.name, JobObject, namespace=key.namespace)
    except NotFound:
        return None
    return job.metadata.uid
