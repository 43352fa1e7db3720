"""Writing a job's status: only on the version of the job that the decision was made on."""

from collections.abc import Callable

import msgspec

from spotrun.act.errors import Trouble, on_write
from spotrun.act.write_retries import Retries
from spotrun.act.writes import Writes, Written, status_patch
from spotrun.kube.backoff import Backoff, Roll
from spotrun.kube.errors import Conflict, KubeError, NotFound
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.leader_memory import STATUS, Memory
from spotrun.observe.kube_objects import TRAINING_JOBS
from spotrun.state.codec import write
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot

CONFLICTS = Backoff(least_seconds=0.1, most_seconds=10.0)
"""The pauses after conflicts. The watch event of the other write mostly comes at once."""
BELIEVED_CONFLICTS = 4
"""After more conflicts in a row the cache must have missed a write: nothing is decided until it
shows a newer version of the job, or has listed all jobs again."""


class StoredIds(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a stored status that says which worker ids are used up."""

    next_worker_id: int | None = None


class WrittenStatus(Written, frozen=True):
    """The part of the answer to a written status that is used."""

    status: StoredIds | None = None


class StatusWriter:
    """Stores statuses, and says when to look again if that failed."""

    def __init__(
        self,
        client: Client,
        writes: Writes,
        retries: Retries,
        *,
        clock: Callable[[], float],
        roll: Roll,
    ) -> None:
        self._client = client
        self._writes = writes
        self._retries = retries
        self._clock = clock
        self._roll = roll

    async def store(
        self,
        job: JobSnapshot,
        old: JobState,
        new: JobState,
        memory: Memory,
    ) -> str | Trouble:
        """Write the next status; returns the version that has it, or the trouble."""
        versions: list[str] = []

        async def attempt() -> list[Trouble | None]:
            try:
                versions.append(await self._patch(job, new, memory))
            except KubeError as error:
                return [self._not_stored(job, error, memory)]
            return [None]

        if new == old:
            return job.version
        troubles = await self._retries.attempt(memory, status_of(job), attempt)
        return troubles[0] if troubles else versions[-1]

    async def _patch(self, job: JobSnapshot, new: JobState, memory: Memory) -> str:
        patch = status_patch(job.version, write(new))
        written = await self._writes.do(
            "status",
            job.namespace,
            lambda: self._client.patch(
                TRAINING_JOBS,
                job.name,
                patch,
                WrittenStatus,
                namespace=job.namespace,
                subresource="status",
            ),
        )
        _check_stored(written.status, new)
        memory.written_at, memory.conflicts = self._clock(), 0
        meta = written.metadata
        key = Key(job.namespace, job.name)
        self._writes.reached(key, TRAINING_JOBS, job.name, meta.version)
        return meta.resource_version

    def _not_stored(self, job: JobSnapshot, error: KubeError, memory: Memory) -> Trouble:
        """Decide again after a pause; after many conflicts the cached job must be an old one."""
        if not isinstance(error, (Conflict, NotFound)):  # changed or deleted, and not seen yet
            return on_write(error)
        memory.conflicts += 1
        if memory.conflicts > BELIEVED_CONFLICTS:
            self.await_newer(job)
        return Trouble(wake_after_seconds=CONFLICTS.pause_seconds(memory.conflicts, self._roll))

    def await_newer(self, job: JobSnapshot) -> None:
        """Decide nothing more about a job until the cache shows a newer version of it."""
        key = Key(job.namespace, job.name)
        self._writes.reached(key, TRAINING_JOBS, job.name, int(job.version) + 1)


def _check_stored(stored: StoredIds | None, new: JobState) -> None:
    """Raise KubeError if the API server left out which worker ids are used up.

    It silently leaves out fields that its CRD does not declare, and no worker id may be used twice.
    """
    if (stored.next_worker_id if stored is not None else None) != new.next_worker_id:
        raise KubeError(
            "the API server did not store status.nextWorkerId, so no worker is created or removed: "
            "its CRDs are of an earlier version than the operator; apply those of this version "
            "(`kubectl apply --server-side -f crds/`)"
        )


def status_of(job: JobSnapshot) -> str:
    """Name the write of a status; a changed spec has another name, so it is tried at once."""
    return f"{STATUS} of generation {job.generation}"
