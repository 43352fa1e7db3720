"""Making the workers of a job: protected first, tried out once, then more and more at a time."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from spotrun.act.disruption_budget import disruption_budget
from spotrun.act.manifest import Manifest
from spotrun.act.network_policy import network_policy
from spotrun.act.pods import PodWriter
from spotrun.act.settings import Settings
from spotrun.act.trouble import Trouble, all_troubles, on_creation
from spotrun.act.writes import Writes, Written
from spotrun.decide.actions import Create
from spotrun.decide.snapshot import JobSnapshot
from spotrun.decide.view import FINISHED
from spotrun.kube.backoff import Backoff, Roll
from spotrun.kube.client import Client
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Resource
from spotrun.observe.memory import Memory, Refused
from spotrun.observe.naming import owned_name

log = logging.getLogger(__name__)

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")

REFUSED = Backoff(least_seconds=5.0, most_seconds=300.0)
"""A template is mended by people, a quota by other jobs that end."""
ENSURE_AGAIN_SECONDS = 600.0
"""So often budget and policy of a job with workers are applied once more: somebody may have deleted
them, and to watch them for that would cost more."""


class Creations:
    """Makes workers, and does not ask again too soon where Kubernetes refuses them."""

    def __init__(
        self,
        client: Client,
        pods: PodWriter,
        writes: Writes,
        settings: Callable[[], Settings],
        *,
        clock: Callable[[], float],
        roll: Roll,
    ) -> None:
        self._client = client
        self._pods = pods
        self._writes = writes
        self._settings = settings
        self._clock = clock
        self._roll = roll

    async def make(self, job: JobSnapshot, workers: list[Create], memory: Memory) -> list[Trouble]:
        """Make these workers; what Kubernetes says against it is kept in the memory."""
        if not workers:
            memory.refused = None
            await self._keep_protected(job, memory)
            return []
        refused, now_seconds = memory.refused, self._clock()
        if refused and refused.template == job.template and now_seconds < refused.retry_at:
            return [Trouble(again_seconds=refused.retry_at - now_seconds)]
        troubles = await self._prepare(job, workers[0], memory)
        if not troubles:
            troubles = await self._start_slowly(job, workers, memory)
        return [*troubles, *self._remember(job, troubles, memory)]

    async def _prepare(self, job: JobSnapshot, first: Create, memory: Memory) -> list[Trouble]:
        """Before workers are made: what protects them, and the word that they are accepted."""
        if self._clock() - memory.ensured_at >= ENSURE_AGAIN_SECONDS:
            troubles = await self._protect(job)
            if troubles:
                return troubles
            memory.ensured_at = self._clock()
        if memory.accepted == job.template:
            return []
        return await all_troubles(self._pods.try_out(job, first, self._settings(), memory))

    async def _keep_protected(self, job: JobSnapshot, memory: Memory) -> None:
        """Protect workers that are there already, now and then; what is wrong can wait."""
        if job.deleting or job.status.phase in FINISHED or not job.workers:
            return
        now_seconds = self._clock()
        if memory.ensured_at == float("-inf"):  # a new leader, who looks at all jobs at once
            memory.ensured_at = now_seconds - self._roll() * ENSURE_AGAIN_SECONDS
        if now_seconds - memory.ensured_at >= ENSURE_AGAIN_SECONDS:
            memory.ensured_at = now_seconds
            for trouble in await self._protect(job):
                log.warning("%s/%s: not protected: %s", job.namespace, job.name, trouble)

    async def _protect(self, job: JobSnapshot) -> list[Trouble]:
        return await all_troubles(
            self._ensure(job, BUDGETS, disruption_budget(job)),
            self._ensure(job, POLICIES, network_policy(job)),
        )

    async def _ensure(
        self, job: JobSnapshot, resource: Resource, manifest: Manifest
    ) -> Trouble | None:
        name = owned_name(job.name, job.uid)
        try:
            await self._writes.do(
                resource.plural,
                lambda: self._client.apply(
                    resource, name, manifest, Written, namespace=job.namespace
                ),
            )
        except KubeError as error:
            return on_creation(error)
        return None

    async def _start_slowly(
        self, job: JobSnapshot, workers: list[Create], memory: Memory
    ) -> list[Trouble]:
        """1, 2, 4, 8 ... at a time: what refuses one refuses all, and is asked only once."""
        settings = self._settings()
        settings = replace(settings, restricted=settings.restricted or memory.is_restricted)
        troubles: list[Trouble] = []
        rest, size = workers, 1
        while rest and not any(trouble.stops_creations for trouble in troubles):
            batch, rest = rest[:size], rest[size:]
            troubles += await all_troubles(
                *(self._pods.create(job, one, settings) for one in batch)
            )
            size *= 2
        return troubles

    def _remember(
        self, job: JobSnapshot, troubles: list[Trouble], memory: Memory
    ) -> Iterable[Trouble]:
        """Keep a refusal, and when to try again."""
        refusals = [trouble.refusal for trouble in troubles if trouble.refusal is not None]
        if not refusals:
            return  # forgotten as soon as there is nobody left to make
        before = memory.refused
        times = before.times + 1 if before is not None and before.template == job.template else 1
        pause_seconds = REFUSED.pause_seconds(times, self._roll)
        retry_at = self._clock() + pause_seconds
        memory.refused = Refused(refusals[-1], job.template, times, retry_at)
        memory.accepted = None  # tried out again, for what refuses may have changed
        yield Trouble(again_seconds=pause_seconds)
