"""Writing a job's status: on the very version that was decided upon, or not at all."""

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
"""The event of the write that was in the way is mostly on its way already."""
BELIEVED_CONFLICTS = 4
"""After more conflicts in a row the cache must have missed a write: it has to show a newer job
first, or to be filled anew."""


class StoredIds(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a stored status that says which worker ids are given out."""

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
        """Look again, later each time; what conflicts again and again was decided on an old job."""
        if not isinstance(error, (Conflict, NotFound)):  # changed or deleted, and not seen yet
            return on_write(error)
        memory.conflicts += 1
        if memory.conflicts > BELIEVED_CONFLICTS:
            self.await_newer(job)
        return Trouble(wake_after_seconds=CONFLICTS.pause_seconds(memory.conflicts, self._roll))

    def await_newer(self, job: JobSnapshot) -> None:
        """Decide nothing more about a job on this version of it, or an older one."""
        key = Key(job.namespace, job.name)
        self._writes.reached(key, TRAINING_JOBS, job.name, int(job.version) + 1)


def _check_stored(stored: StoredIds | None, new: JobState) -> None:
    """Raise KubeError if the API server left out which worker ids are given out.

    It leaves out silently what its CRD does not declare, and worker ids must never be used again.
    """
    if (stored.next_worker_id if stored is not None else None) != new.next_worker_id:
        raise KubeError(
            "the API server did not store status.nextWorkerId, so no worker is made or removed: "
            "its CRDs are of an earlier version than the operator; apply those of this version "
            "(`kubectl apply --server-side -f crds/`)"
        )


def status_of(job: JobSnapshot) -> str:
    """Name the writing of a status: after a change of the spec it is tried at once."""
    return f"{STATUS} of generation {job.generation}"
