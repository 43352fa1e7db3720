"""Creation of a job's workers: after protection and one dry run, more and more at a time."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from spotrun.act.errors import Trouble, all_troubles
from spotrun.act.manifests.gang_pods import GangPods
from spotrun.act.manifests.worker_settings import Settings
from spotrun.act.pods.writer import PodWriter
from spotrun.act.protection import Protection
from spotrun.act.write_retries import Results, Retries
from spotrun.api.names import Reason
from spotrun.kube.backoff import Backoff, Roll
from spotrun.observe.jobs.leader_memory import Memory, Refused
from spotrun.state.actions import Create
from spotrun.state.snapshot import JobSnapshot

REFUSED = Backoff(least_seconds=5.0, most_seconds=300.0)
"""The pauses after a refusal. People must fix a template; a quota has room when other jobs end."""
ACCEPTED_SECONDS = 60.0
"""One job's dry run is valid this long for all jobs of its namespace with the same template: sweeps
submit hundreds of jobs, and the first pod of each job is created alone in any case."""


@dataclass(frozen=True)
class _Accepted:
    until: float
    is_restricted: bool


class Creations:
    """Creates workers, and does not ask again too soon if Kubernetes refuses them."""

    def __init__(
        self,
        pods: PodWriter,
        protection: Protection,
        settings: Callable[[], Settings],
        *,
        retries: Retries,
        clock: Callable[[], float],
        roll: Roll,
    ) -> None:
        self._pods = pods
        self._protection = protection
        self._settings = settings
        self._retries = retries
        self._clock = clock
        self._roll = roll
        self._accepted: dict[tuple[str, str], _Accepted] = {}  # by namespace and template

    async def make(self, job: JobSnapshot, workers: list[Create], memory: Memory) -> list[Trouble]:
        """Create these workers; a refusal by Kubernetes is kept in the memory."""
        if not workers:
            if not _waits_for_quota(job, memory):
                memory.refused = None
            await self._protection.keep(job, memory)
            return []
        refused, now_seconds = memory.refused, self._clock()
        if refused and refused.template == job.template and now_seconds < refused.retry_at:
            return [Trouble(wake_after_seconds=refused.retry_at - now_seconds)]
        troubles = await self._retries.attempt(
            memory, creation_of(job), lambda: self._try(job, workers, memory)
        )
        return [*troubles, *self._remember(job, troubles, memory)]

    async def _try(self, job: JobSnapshot, workers: list[Create], memory: Memory) -> Results:
        troubles = await self._prepare(job, workers[0], memory)
        return troubles or await self._start_slowly(job, workers, memory)

    async def _prepare(self, job: JobSnapshot, first: Create, memory: Memory) -> list[Trouble]:
        """Protect the workers before they start, and ask by a dry run whether they are accepted."""
        troubles = await self._protection.before_workers(job, memory)
        if troubles or memory.accepted == job.template:
            return troubles
        same = self._accepted.get((job.namespace, job.template))
        if same is not None and self._clock() < same.until:
            memory.accepted, memory.is_restricted = job.template, same.is_restricted
            return []
        troubles = await all_troubles(self._pods.try_out(job, first, self._settings(), memory))
        if memory.accepted == job.template:
            self._speak_for_others(job, memory)
        return troubles

    def _speak_for_others(self, job: JobSnapshot, memory: Memory) -> None:
        now_seconds = self._clock()
        known = {key: one for key, one in self._accepted.items() if now_seconds < one.until}
        accepted = _Accepted(now_seconds + ACCEPTED_SECONDS, memory.is_restricted)
        self._accepted = {**known, (job.namespace, job.template): accepted}

    async def _start_slowly(
        self, job: JobSnapshot, workers: list[Create], memory: Memory
    ) -> Results:
        """Create 1, 2, 4, 8 ... at a time: after a refusal, which holds for all, no more follow."""
        settings = self._settings()
        settings = replace(settings, restricted=settings.restricted or memory.is_restricted)
        pods = GangPods(job, settings)
        results: list[Trouble | None] = []
        rest, size = workers, 1
        while rest and not any(one is not None and one.stops_creations for one in results):
            batch, rest = rest[:size], rest[size:]
            results += await asyncio.gather(
                *(self._pods.create(job, one, pods.manifest(one)) for one in batch)
            )
            size *= 2
        return results

    def _remember(
        self, job: JobSnapshot, troubles: list[Trouble], memory: Memory
    ) -> Iterable[Trouble]:
        """Keep a refusal, and when to try again."""
        refusals = [trouble.refusal for trouble in troubles if trouble.refusal is not None]
        if not refusals:
            if memory.accepted == job.template:
                memory.refused = None
            return
        before = memory.refused
        times = before.times + 1 if before is not None and before.template == job.template else 1
        pause_seconds = REFUSED.pause_seconds(times, self._roll)
        retry_at = self._clock() + pause_seconds
        memory.refused = Refused(refusals[-1], job.template, times, retry_at)
        memory.accepted = None  # another dry run is needed: the cause of the refusal may change
        self._accepted.pop((job.namespace, job.template), None)
        yield Trouble(wake_after_seconds=pause_seconds)


def creation_of(job: JobSnapshot) -> str:
    """Name the creation of a job's workers; another template has another name, tried at once."""
    return f"the creation of workers of template {job.template}"


def _waits_for_quota(job: JobSnapshot, memory: Memory) -> bool:
    """Whether a job waits for room in a quota, so that its last refusal still holds."""
    reason = memory.refused.refusal.reason if memory.refused is not None else None
    return reason == Reason.QUOTA_EXCEEDED and not job.may_hold_nodes
