"""Objects that protect a job's workers: a NetworkPolicy and a PodDisruptionBudget."""

import logging
from collections.abc import Callable

from spotrun.act.errors import Trouble, on_creation
from spotrun.act.manifests.disruption_budget import disruption_budget
from spotrun.act.manifests.network_policy import network_policy
from spotrun.act.manifests.plain_json import Manifest
from spotrun.act.write_retries import Retries
from spotrun.act.writes import Writes, Written
from spotrun.kube.backoff import Roll
from spotrun.kube.errors import AlreadyExists, KubeError
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import FINISHED
from spotrun.state.world_members import training

log = logging.getLogger(__name__)

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")

ENSURE_AGAIN_SECONDS = 600.0
"""The interval at which the budget and the policy of a job with workers are applied again: somebody
may have deleted them, and a watch for that would cost more."""

BUDGET = "the PodDisruptionBudget"
_PATIENCE = 3  # failures in a row


class Protection:
    """Creates a job's NetworkPolicy and its PodDisruptionBudget, each before it is needed."""

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

    async def before_workers(self, job: JobSnapshot, memory: Memory) -> list[Trouble]:
        """Create the NetworkPolicy, so that other pods can never reach a worker."""
        if not self._is_recent(memory.policy_at):
            trouble = await self._ensure(job, POLICIES, network_policy(job))
            if trouble is not None:
                return [trouble]
            memory.policy_at = self._clock()
        return await self._guard(job, memory) if training(job.status) else []

    async def before_training(
        self, job: JobSnapshot, status: JobState, memory: Memory
    ) -> list[Trouble]:
        """Create the budget, so that a drain cannot evict training workers without a replacement.

        Not earlier: a worker that is evicted before it trains is created again, and nothing is
        lost; and Kubernetes counts a budget's pods again for each new pod of a gang. If this fails
        again and again (a webhook is down), the job trains without the budget.
        """
        if training(job.status) or not training(status):
            memory.failing.pop(BUDGET, None)
            return []
        troubles = await self._retries.attempt(memory, BUDGET, lambda: self._guard(job, memory))
        failing = memory.failing.get(BUDGET)
        if failing is None or failing.times < _PATIENCE:
            return troubles
        del memory.failing[BUDGET]
        self._go_without(job, failing.words, memory)
        return []

    async def keep(self, job: JobSnapshot, memory: Memory) -> None:
        """Restore the protection of existing workers from time to time; failures can wait."""
        if job.deleting or job.status.phase in FINISHED or not job.workers:
            return
        if memory.policy_at == float("-inf"):  # a new leader: spread the checks of all jobs
            began = self._clock() - self._roll() * ENSURE_AGAIN_SECONDS
            memory.policy_at = began
            if training(job.status):  # otherwise there is no budget yet
                memory.budget_at = began
        for trouble in await self.before_workers(job, memory):
            log.warning(
                "%s/%s: the workers' NetworkPolicy or PodDisruptionBudget could not be "
                "restored: %s",
                job.namespace,
                job.name,
                trouble,
            )
            memory.policy_at = memory.budget_at = self._clock()

    async def _guard(self, job: JobSnapshot, memory: Memory) -> list[Trouble]:
        """Create the budget; if it is refused (by a quota, a webhook) the job trains without it."""
        if self._is_recent(memory.budget_at):
            return []
        trouble = await self._ensure(job, BUDGETS, disruption_budget(job))
        if trouble is None:
            memory.budget_at = self._clock()
        elif trouble.refusal is None:
            return [trouble]
        else:
            self._go_without(job, trouble.refusal.message, memory)
        return []

    def _go_without(self, job: JobSnapshot, words: str, memory: Memory) -> None:
        """Let the job train without a budget, and try again after a while."""
        memory.budget_at = self._clock()
        log.warning(
            "%s/%s: drains may evict workers before they are replaced, because the "
            "PodDisruptionBudget was refused: %s",
            job.namespace,
            job.name,
            words,
        )

    def _is_recent(self, moment: float) -> bool:
        return self._clock() - moment < ENSURE_AGAIN_SECONDS

    async def _ensure(
        self, job: JobSnapshot, resource: Resource, manifest: Manifest
    ) -> Trouble | None:
        try:
            await self._make(job.namespace, resource, manifest)
        except KubeError as error:
            return on_creation(error)
        return None

    async def _make(self, namespace: str, resource: Resource, manifest: Manifest) -> None:
        create, apply = self._client.create, self._client.apply
        kind, name = resource.plural, manifest["metadata"]["name"]
        try:
            # An apply costs the API server twice as much, so it is used only if the object exists.
            await self._writes.do(
                kind, namespace, lambda: create(resource, manifest, Written, namespace=namespace)
            )
        except AlreadyExists:
            await self._writes.do(
                kind,
                namespace,
                lambda: apply(resource, name, manifest, Written, namespace=namespace),
            )
