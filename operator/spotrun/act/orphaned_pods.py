"""Pods whose job is gone: the operator removes its finalizer, so that they can be deleted.

This is done separately: a job of the same name does not wait for them, nor they for it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from spotrun.act.executor import Executor
from spotrun.kube.errors import KubeError, NotFound
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.orphans import Orphan
from spotrun.observe.kube_objects import TRAINING_JOBS, JobObject
from spotrun.state.snapshot import JobSnapshot

log = logging.getLogger(__name__)


async def let_go(client: Client, executor: Executor, job: Key, orphans: Iterable[Orphan]) -> None:
    """Take our finalizer off the pods of deleted jobs of a name, concurrently.

    Raises the first KubeError once all were tried. The cache of jobs may be behind that of pods, so
    the API server is asked which job exists.
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


class HiddenPods:
    """Orphaned pods that no cache shows because their labels were removed.

    Their names are known only while the deleted job is remembered. If a pod could not be released,
    `again` is called with the job's key.
    """

    def __init__(self, executor: Executor, again: Callable[[Key], None]) -> None:
        self._executor = executor
        self._again = again
        self._left: dict[Key, dict[tuple[str, int], JobSnapshot]] = {}

    @property
    def jobs(self) -> Collection[Key]:
        """The names of the jobs that left such pods behind."""
        return self._left.keys()

    async def let_go(self, job: JobSnapshot, worker_ids: Iterable[int]) -> None:
        """Take our finalizer off the pods of a job that was just deleted, or try again later."""
        key = Key(job.namespace, job.name)
        self._left.setdefault(key, {}).update(
            {(job.uid, worker_id): job for worker_id in worker_ids}
        )
        try:
            await self.try_again(key)
        except KubeError as error:
            log.warning(
                "%s/%s: a pod of the deleted job still has our finalizer: %s",
                *key,
                error,
            )
            self._again(key)

    async def try_again(self, key: Key) -> None:
        """Release the pods that are left; raises the first KubeError once all were tried."""
        left = self._left.get(key, {})
        failed: KubeError | None = None
        for one, job in tuple(left.items()):
            try:
                await self._executor.let_go_of_hidden(job, one[1])
                left.pop(one, None)
            except KubeError as error:
                failed = error
        if failed is not None:
            raise failed
        if not left:
            self._left.pop(key, None)


async def _uid_of(client: Client, key: Key) -> str | None:
    try:
        job = await client.get(TRAINING_JOBS, key.name, JobObject, namespace=key.namespace)
    except NotFound:
        return None
    return job.metadata.uid
