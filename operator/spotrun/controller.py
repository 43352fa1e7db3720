"""The operator at work: caches fill, jobs queue up, each is looked at, decided and acted upon.

Every replica keeps its caches warm and answers agents; only the leader decides.
"""

import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any, NoReturn, Self
from uuid import uuid4

from spotrun import diary, garbage, logs, preflight
from spotrun.act import orphans
from spotrun.act.broken import undecided
from spotrun.act.executor import Executor
from spotrun.act.pools import PoolKeeper
from spotrun.act.settings import Settings as WorkerSettings
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.fates import in_doubt
from spotrun.decide.job import decide
from spotrun.decide.snapshot import JobSnapshot
from spotrun.decide.world import is_restart
from spotrun.kube.client import Client
from spotrun.kube.horizon import Horizon
from spotrun.kube.lease import Election, Terms
from spotrun.kube.queue import WorkQueue
from spotrun.kube.resource import Key, Resource
from spotrun.kube.tasks import running
from spotrun.observe.caches import Caches
from spotrun.observe.memory import Memory
from spotrun.observe.price_tables import NOBODY, PriceSources
from spotrun.observe.snapshot import BrokenJob
from spotrun.observe.volumes import Volumes
from spotrun.serve.board import Board, WorkerKey
from spotrun.serve.bucket import Bucket, Rate
from spotrun.serve.leadership import Leadership
from spotrun.serve.metrics import Meter
from spotrun.serve.plain import PlainServer
from spotrun.serve.publishing import published
from spotrun.serve.server import Server
from spotrun.serve.server import Settings as ServerSettings
from spotrun.serve.tls import Source, load_patiently
from spotrun.serve.tokens import Tokens, review_by

log = logging.getLogger(__name__)

_DOUBT_SECONDS = 0.5
"""How often workers in doubt are asked for a sign of life; silent for 1 s, they are lost."""
_NOT_YET_SEEN_SECONDS = 0.02
"""Our own write comes back through the watch within milliseconds; until then nothing is decided."""

_RESTARTS = Rate(per_second=10, burst=100)
"""Of worlds, by all jobs: a thousand that fail together are back after a minute and a half."""

_POOL_SECONDS, _POOLS_AT_ONCE = 1.0, 4
"""Nodes and workers come and go in crowds; what that makes of a pool is concluded once for all."""


@dataclass(frozen=True)
class Settings:
    """How one replica runs."""

    namespace: str  # where its Lease and its Secret are
    advertise: str  # host:port that agents are given: a Service, or this machine
    address: str  # host:port of this very replica, for agents that a standby sends on
    watch_namespace: str | None = None  # None: all
    price_sources: PriceSources = NOBODY
    restricted: bool = False
    workers: int = 64  # jobs under way at once; they wait for answers, which `act` bounds
    agents: ServerSettings = field(default_factory=ServerSettings)
    plain_host: str = ""
    plain_port: int = 8080
    terms: Terms = field(default_factory=Terms)


class Controller:
    """One replica of the operator; works while its `async with` block lasts."""

    def __init__(self, settings: Settings, client: Client, source: Source) -> None:
        self._settings = settings
        self._client = client
        self._source = source
        self._memories: dict[Key, Memory] = {}
        self._leading_since = float("inf")
        self._queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key.namespace)
        self._pool_queue: WorkQueue[str] = WorkQueue()
        self._caches = Caches(
            client,
            namespace=settings.watch_namespace,
            wake=self._queue.add,
            wake_pool=lambda name: self._pool_queue.add_after(name, _POOL_SECONDS),
            price_sources=settings.price_sources,
            clock=time.monotonic,
            wall=_now,
        )
        self._horizon: Horizon[Key, Resource] = Horizon(self._caches, time.monotonic)
        self._keeper = PoolKeeper(
            client, self._caches, self._horizon, clock=time.monotonic, wall=_now
        )
        self._volumes = Volumes(client, time.monotonic)
        self._restarts = Bucket(_RESTARTS, time.monotonic)
        self._has_identity = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        settings, client = self._settings, self._client
        enter = self._stack.enter_async_context
        self._election = Election(
            client,
            namespace=settings.namespace,
            name="spotrun",
            identity=f"{settings.address}/{uuid4().hex[:12]}",
            terms=settings.terms,
        )
        leadership = Leadership(self._election, settings.address)
        queues: dict[str, WorkQueue[Any]] = {
            "trainingjobs": self._queue,
            "capacitypools": self._pool_queue,
        }
        self._meter = Meter(lambda: self._board.jobs, lambda: leadership.leads, queues)
        self.plain = await enter(
            PlainServer(
                self._meter.registry,
                healthy=lambda: None,
                ready=self._unready,
                host=settings.plain_host,
                port=settings.plain_port,
            )
        )
        await enter(self._caches)
        caches = self._caches
        explain = preflight.explain_if_empty(client, caches.selections, lambda: caches.are_synced)
        await enter(running(explain))
        await enter(running(garbage.collect_rarely(self._caches.synced())))
        identity = await load_patiently(self._source)
        self._has_identity = True
        self._board = Board(identity.world_key)
        self._server = Server(
            settings.agents,
            self._board,
            self._caches.agents,
            Tokens(review_by(client)),
            leadership,
            source=self._source,
            identity=identity,
            wake=lambda key: self._queue.add(key, urgent=True),
            meter=self._meter,
        )
        self._executor = Executor(
            client,
            self._horizon,
            self._worker_settings,
            self._stored,
            clock=time.monotonic,
            wall=_now,
            roll=Random().random,  # noqa: S311 - jitter, not a secret
            instance=settings.address,
        )
        await enter(self._server)
        await enter(self._election)
        await enter(running(self._lead()))

    @property
    def port(self) -> int:
        """Where agents are served."""
        return self._server.port

    @property
    def leads(self) -> bool:
        """Whether this replica decides."""
        return self._election.leads

    def ages_seconds(self) -> dict[str, float]:
        """For how long each cache has heard nothing; raises RuntimeError where one has stalled."""
        return self._caches.ages_seconds()

    def _unready(self) -> str | None:
        if not self._has_identity:
            return "the API server is being asked for the certificates that agents are shown"
        return None if self._caches.are_synced else "the caches are being filled"

    async def _lead(self) -> NoReturn:
        """Whenever this replica leads, work; when it no longer does, stop before another begins."""
        while True:
            await self._election.held.wait()
            self._leading_since = time.monotonic()
            await self._caches.synced()
            log.info("leading; %d jobs are known", self._caches.num_jobs)
            await self._caches.survey()
            for key in self._caches.all_keys():
                self._queue.add(key)
            for name in self._caches.pools.names():
                self._pool_queue.add(name)
            jobs = self._queue.run(self._work, workers=self._settings.workers)
            pools = self._pool_queue.run(self._keep, workers=_POOLS_AT_ONCE)
            async with running(jobs), running(pools):
                await self._election.lost.wait()
            await self._server.step_down()
            log.info("no longer leading")

    async def _work(self, key: Key) -> float | None:
        """Look at one job, decide, act; returns when to look again."""
        if not self._election.leads:
            return None
        if not self._horizon.caught_up(key):
            return self._wait_for_own_writes(key)
        with self._meter.reconciling():
            again_seconds = await self._reconcile(key, logs.about(f"{key.namespace}/{key.name}"))
        return again_seconds if again_seconds < float("inf") else None

    async def _keep(self, pool: str) -> float | None:
        return await self._keeper.keep(pool) if self._election.leads else None

    def _wait_for_own_writes(self, key: Key) -> float:
        """Never decide on what is older than our own writes; ask again where they got lost."""
        for resource in self._horizon.overdue(key):
            self._caches.relist(resource)
        return max(_NOT_YET_SEEN_SECONDS, self._horizon.waited_seconds(key) / 4)

    async def _reconcile(self, key: Key, context: logs.LogContext) -> float:
        await orphans.let_go(self._client, self._executor, key, self._caches.orphans(key))
        memory = self._memories.setdefault(key, Memory())
        claims = self._caches.claims_of(key)
        storage = await self._volumes.look(claims)
        job = self._caches.snapshot(key, memory, self._leading_since, storage)
        if job is None:
            await self._executor.say_farewell(memory)
            return self._forget(key)
        if isinstance(job, BrokenJob):
            outcome = await self._executor.report(job, memory)
            if outcome.failure is not None:
                raise outcome.failure
            return outcome.again_seconds
        again_seconds = await self._decide(job, memory, context)
        others = (self._volumes.again_seconds(claims), self._caches.again_seconds(key))
        return min(again_seconds, *others)

    async def _decide(self, job: JobSnapshot, memory: Memory, context: logs.LogContext) -> float:
        job = replace(job, restart_seconds=self._restarts.wait_seconds())
        self._board.publish(published(job, job.status), int(job.version))
        doubted = self._ask_for_signs_of_life(job)
        try:
            decision = decide(job, _now())
        except Exception as error:
            await self._executor.report(undecided(job, error), memory)
            raise
        world = decision.status.world
        context.generation = world.generation if world is not None else None
        outcome = await self._executor.carry_out(job, decision, memory)
        if outcome.stored:
            if is_restart(job.status, decision.status):
                self._restarts.take()
            for entry in diary.entries(job.status, decision):
                log.info("%s", entry)
        if outcome.failure is not None:
            raise outcome.failure
        again_seconds = decision.again_seconds if outcome.stored else float("inf")
        doubt_seconds = _DOUBT_SECONDS if doubted else float("inf")
        return min(outcome.again_seconds, again_seconds, doubt_seconds)

    def _ask_for_signs_of_life(self, job: JobSnapshot) -> bool:
        """Answer the held polls of workers in doubt: who lives asks again within milliseconds."""
        doubted = in_doubt(job)
        for worker in job.workers:
            if worker.serial in doubted:
                self._board.nudge(WorkerKey(job.namespace, job.name, worker.pod.name))
        return bool(doubted)

    def _forget(self, key: Key) -> float:
        self._memories.pop(key, None)
        self._horizon.forget(key)
        self._queue.forget(key)
        self._caches.forget(key)
        self._board.withdraw(key, self._caches.jobs_version)
        return float("inf")

    def _stored(self, job: JobSnapshot, status: TrainingJobStatus, version: str) -> None:
        self._board.publish(published(job, status), int(version))

    def _worker_settings(self) -> WorkerSettings:
        own = self._settings
        return WorkerSettings(own.advertise, self._server.bundle, restricted=own.restricted)


def _now() -> datetime:
    return datetime.now(UTC)
