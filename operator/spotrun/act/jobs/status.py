"""Writing a job's status: on the very version that was decided upon, or not at all."""

from collections.abc import Callable

from spotrun.act.errors import Trouble, on_write
from spotrun.act.retries import Retries
from spotrun.act.writes import Writes, Written
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
"""After more in a row the cache is taken to have missed a write: it has to show a newer job first,
or be filled anew."""


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
        patch: list[dict[str, object]] = [
            # The version makes it conditional. A PUT would be sent twice by the connection pool
            # when a kept connection turns out to be dead, and then conflict with itself.
            {"op": "replace", "path": "/metadata/resourceVersion", "value": job.version},
            {"op": "add", "path": "/status", "value": write(new).manifest()},
        ]
        written = await self._writes.do(
            "status",
            lambda: self._client.patch(
                TRAINING_JOBS,
                job.name,
                patch,
                Written,
                namespace=job.namespace,
                subresource="status",
            ),
        )
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


def status_of(job: JobSnapshot) -> str:
    """Name the writing of a status: after a change of the spec it is tried at once."""
    return f"{STATUS} of generation {job.generation}"
