"""The work on one job: observe, decide, act."""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from spotrun.act import orphaned_pods
from spotrun.act.executor import Executor
from spotrun.act.pods.rollout import creation_of
from spotrun.agents.long_poll import Board, WorkerKey
from spotrun.agents.published import publish, published
from spotrun.http.rate_limit import Bucket, Rate
from spotrun.kube.backoff import Backoff, Roll
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.metrics.deleted_jobs import DeletedJobs
from spotrun.observe.caches import Caches
from spotrun.observe.jobs.device_claims import DeviceCounts, device_claims_of
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.jobs.volumes import Volumes
from spotrun.policies.chain import decide
from spotrun.policies.fallback_chain import let_go, undecided
from spotrun.policies.report.cost_announcements import cost_at_deletion
from spotrun.policies.workers.hidden_pods import hidden
from spotrun.policies.world.policy import is_restart
from spotrun.runtime import decision_log, log_format
from spotrun.state.actions import Decision
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.cost import Cost
from spotrun.state.view import holds_back
from spotrun.state.worker_outcomes import in_doubt

log = logging.getLogger(__name__)

_DOUBT_SECONDS = 0.5
"""The interval at which workers in doubt are asked for a sign of life; silent for 1 s, they count
as lost."""
_NOT_YET_SEEN_SECONDS = 0.02
"""The watch shows our own write within milliseconds; until then nothing is decided."""

_UNDECIDED = Backoff(least_seconds=1.0, most_seconds=60.0)
"""The pauses between attempts to decide about a job for which a policy fails: each costs a whole
decision."""

_RESTARTS = Rate(per_second=10, burst=100)
"""The rate of restarts of worlds, of all jobs: a thousand that fail together have all started again
after a minute and a half."""


class Reconciler:
    """Reconciles all jobs, one call at a time for each, while this replica is the leader."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        board: Board,
        executor: Executor,
        deleted_jobs: DeletedJobs,
        *,
        queue: WorkQueue[Key],
        horizon: Horizon[Key, Resource],
        clock: Callable[[], float],
        roll: Roll,
        wall: Callable[[], datetime],
        orphaned: Callable[[Key], None] = lambda _: None,
        bill_deleted: Callable[[JobSnapshot, Cost | None], None] = lambda *_: None,
        is_sure: Callable[[], bool] = lambda: True,
        count_failure: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._caches = caches
        self._board = board
        self._executor = executor
        self._hidden = orphaned_pods.HiddenPods(executor, orphaned)
        self._deleted_jobs = deleted_jobs
        self._bill_deleted = bill_deleted
        self._queue = queue
        self._horizon = horizon
        self._wall = wall
        self._roll = roll
        self._is_sure = is_sure
        self._count_failure = count_failure
        self._volumes = Volumes(client, clock)
        self._devices = DeviceCounts(client, clock)
        self._restarts = Bucket(_RESTARTS, clock)
        self._memories: dict[Key, Memory] = {}

    @property
    def remembered(self) -> Collection[Key]:
        """The jobs in memory; some may have been deleted while another replica was the leader."""
        return {*self._memories, *self._hidden.jobs}

    async def reconcile(self, key: Key, leading_since: float) -> float:
        """Observe one job, decide, act; return the seconds until the next time, infinity for none.

        Raises KubeError if a request fails. If a policy fails, users can still suspend the job, or
        delete it.
        """
        context = log_format.about(f"{key.namespace}/{key.name}")
        memory = self._memories.setdefault(key, Memory())
        if memory.is_of_former(self._caches.jobs.uid_of(key), leading_since):
            await self._part_with(key, memory)
        claims, devices = self._caches.claims_of(key), self._caches.device_claims_of(key)
        storage, counts = await self._volumes.look(claims), await self._devices.look(devices)
        job = self._caches.snapshot(key, memory, leading_since, storage, counts)
        if job is None:
            return self._forget(key)
        self._note_hidden(job, memory)
        seen = await self._executor.show(job, memory)
        if seen.is_found:
            return _NOT_YET_SEEN_SECONDS
        wake_after_seconds = min(await self._decide(job, memory, context), seen.wake_after_seconds)
        wake_after_seconds = min(wake_after_seconds, self._caches.wake_after_seconds(key))
        if holds_back(job.status):
            return wake_after_seconds  # when the job continues, it is reconciled in any case
        return min(
            wake_after_seconds,
            self._volumes.wake_after_seconds(claims),
            self._devices.wake_after_seconds(devices),
        )

    async def let_go_of_orphans(self, key: Key) -> None:
        """Release the pods of deleted jobs of a name; raises KubeError if that fails."""
        try:
            await orphaned_pods.let_go(self._client, self._executor, key, self._caches.orphans(key))
        finally:
            await self._hidden.try_again(key)

    def unseen_seconds(self, key: Key) -> float:
        """Return how long to wait until caches show our own writes; 0 if they show all of them.

        Nothing is decided on older facts; if the watch has missed a write, its resource is listed
        again.
        """
        if self._horizon.caught_up(key):
            return 0.0
        for resource in self._horizon.overdue(key):
            self._caches.relist(resource)
        return max(_NOT_YET_SEEN_SECONDS, self._horizon.waited_seconds(key) / 4)

    async def _decide(
        self, job: JobSnapshot, memory: Memory, context: log_format.LogContext
    ) -> float:
        job = replace(
            job,
            restart_seconds=self._restarts.wait_seconds(),
            is_time_sure=self._is_sure(),
            vanished={worker_id: memory.hidden[worker_id] for worker_id in memory.vanished},
        )
        publish(self._board, job, job.status, job.version)
        job, decision = self._decision(job, memory)
        if self._caches.spending.must_ask(job, decision.status):
            return float("inf")  # the answer wakes the job
        doubted = self._ask_for_signs_of_life(job)
        context.world_number = decision.status.world.number or None
        promises, key = self._caches.pools.promises, Key(job.namespace, job.name)
        promises.make(job, decision.actions)
        outcome = await self._executor.carry_out(job, decision, memory)
        if not outcome.stored or _waits_to_create(job, memory) or outcome.failure is not None:
            promises.take_back(key)  # its workers may not come for long
        if outcome.stored:
            if is_restart(job.status, decision.status):
                self._restarts.take()
            for entry in decision_log.entries(job.status, decision):
                log.info("%s", entry)
        if outcome.failure is not None:
            raise outcome.failure
        wake_after_seconds = decision.wake_after_seconds if outcome.stored else float("inf")
        doubt_seconds = _DOUBT_SECONDS if doubted else float("inf")
        if memory.undecided:
            retry_seconds = _UNDECIDED.pause_seconds(memory.undecided, self._roll)
            wake_after_seconds = min(wake_after_seconds, retry_seconds)
        return min(outcome.wake_after_seconds, wake_after_seconds, doubt_seconds)

    def _decision(self, job: JobSnapshot, memory: Memory) -> tuple[JobSnapshot, Decision]:
        """Decide, or release a job about which deciding fails; return it with the reason."""
        now = self._wall()
        try:
            decision = decide(job, now)
        except Exception as error:
            job = undecided(job, error)
            memory.undecided += 1
            self._count_failure(error)
            self._log_once(job, memory, error)
            return job, let_go(job, now)
        self._log_once(job, memory, None)
        memory.undecided = 0
        return job, decision

    def _note_hidden(self, job: JobSnapshot, memory: Memory) -> None:
        """Note the workers whose pods caches should show and do not; none if the ledger is bad."""
        shown_before, memory.shown = memory.shown, frozenset(w.worker_id for w in job.workers)
        try:
            missing = hidden(job, shown_before) if job.has_ledger else frozenset[int]()
        except Exception:
            log.exception(
                "%s/%s: the operator cannot tell which workers have lost their labels",
                job.namespace,
                job.name,
            )
            missing = frozenset()
        memory.shown |= missing - memory.vanished
        since = {worker_id: self._wall() for worker_id in missing & shown_before}
        memory.hidden = {n: memory.hidden.get(n, since.get(n)) for n in missing}

    async def _part_with(self, key: Key, memory: Memory) -> None:
        """Release the pods that a deleted job left behind, and announce its final cost."""
        await self._let_go_of_hidden(key, memory)
        if (last := memory.last) is not None and last.broken is None:
            self._devices.forget(device_claims_of(last.spec, last.status, last.namespace))
        self._keep_final_cost(memory)
        await self._executor.announce_final_cost(memory)
        memory.last = None

    async def _let_go_of_hidden(self, key: Key, memory: Memory) -> None:
        """Release the workers of a job that was just deleted, if they have lost their labels."""
        if (last := memory.last) is None:
            return
        shown = {pod.metadata.name for pod in self._caches.jobs.pods_of(key)}
        missing = hidden(last, memory.shown) - memory.vanished
        unseen = [n for n in missing if worker_name(last.name, last.uid, n) not in shown]
        await self._hidden.let_go(last, unseen)

    def _log_once(self, job: JobSnapshot, memory: Memory, error: Exception | None) -> None:
        """Log a new reason why no decision about a job is possible; the same one only once."""
        words = job.broken.message if job.broken is not None else ""
        if words and words != memory.broken:
            log.error("%s/%s: %s", job.namespace, job.name, words, exc_info=error)
        memory.broken = words

    def _ask_for_signs_of_life(self, job: JobSnapshot) -> bool:
        """Answer the open polls of workers in doubt: a live agent asks again in milliseconds."""
        doubted = in_doubt(job) if job.broken is None else frozenset[int]()
        for worker in job.workers:
            if worker.worker_id in doubted:
                self._board.nudge(WorkerKey(job.namespace, job.name, worker.pod.name))
        return bool(doubted)

    def _keep_final_cost(self, memory: Memory) -> None:
        last = memory.last
        cost = cost_at_deletion(last, self._wall()) if last is not None else None
        if last is not None:
            self._bill_deleted(last, cost)
        if last is not None and cost is not None:
            status = replace(last.status, cost=cost)
            self._deleted_jobs.keep(published(last, status))

    def _forget(self, key: Key) -> float:
        """Forget a deleted job, but not the writes to its pods, so that none is released twice."""
        self._memories.pop(key, None)
        self._queue.forget(key)
        self._caches.forget(key)
        self._board.withdraw(key, self._caches.jobs_version)
        return float("inf")


def _waits_to_create(job: JobSnapshot, memory: Memory) -> bool:
    """Whether workers were refused, or could not be created: this is repeated after a pause."""
    return memory.refused is not None or creation_of(job) in memory.failing
