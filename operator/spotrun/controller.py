"""The operator at work: caches fill, jobs queue up, each is looked at, decided and acted upon.

Every replica keeps its caches warm and answers agents; only the leader decides.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import NoReturn, Self
from uuid import uuid4

from spotrun import diary, logs, preflight
from spotrun.act.executor import Executor
from spotrun.act.settings import Settings as WorkerSettings
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.fates import in_doubt
from spotrun.decide.job import decide
from spotrun.decide.snapshot import JobSnapshot
from spotrun.kube.backoff import Backoff
from spotrun.kube.client import Client
from spotrun.kube.errors import KubeError, NotFound
from spotrun.kube.horizon import Horizon
from spotrun.kube.lease import Election, Terms
from spotrun.kube.queue import WorkQueue
from spotrun.kube.resource import Key, Resource
from spotrun.observe.caches import Caches
from spotrun.observe.memory import Memory
from spotrun.observe.objects import TRAINING_JOBS, JobObject
from spotrun.observe.snapshot import BrokenJob
from spotrun.serve.board import Board, WorkerKey
from spotrun.serve.metrics import Meter
from spotrun.serve.plain import PlainServer
from spotrun.serve.publishing import published
from spotrun.serve.server import Server
from spotrun.serve.server import Settings as ServerSettings
from spotrun.serve.tls import Identity, Source
from spotrun.serve.tokens import Tokens, review_by

log = logging.getLogger(__name__)

_DOUBT_SECONDS = 0.5
"""How often workers in doubt are asked for a sign of life; silent for 1 s, they are lost."""

_NOT_YET_SEEN_SECONDS = 0.02
"""Our own write comes back through the watch within milliseconds; until then nothing is decided."""

_FILLED_SECONDS = 2.0
"""By then 10,000 pods are listed."""

_SILENT_SECONDS = 300.0
"""A healthy cache hears a bookmark a minute, and one in trouble fails at least every 75 s. Only a
bug is silent for so long: that a restart may cure, an API server that is away it does not."""


@dataclass(frozen=True)
class Settings:
    """How one replica runs."""

    namespace: str  # where its Lease and its Secret are
    advertise: str  # host:port that agents are given: a Service, or this machine
    address: str  # host:port of this very replica, for agents that a standby sends on
    watch_namespace: str | None = None  # None: all
    restricted: bool = False
    workers: int = 16  # jobs decided at once
    agents: ServerSettings = field(default_factory=ServerSettings)
    plain_host: str = ""
    plain_port: int = 8080
    terms: Terms = field(default_factory=Terms)


class Leadership:
    """Who leads, as agents need to know it; the leader's address is part of its identity."""

    def __init__(self, election: Election) -> None:
        self._election = election

    @property
    def leads(self) -> bool:
        """Whether this replica may act."""
        return self._election.leads

    @property
    def address(self) -> str | None:
        """Where agents reach the leader."""
        return self._election.leader.rpartition("/")[0] or None


class Controller:
    """One replica of the operator; works while its `async with` block lasts."""

    def __init__(self, settings: Settings, client: Client, source: Source) -> None:
        self._settings = settings
        self._client = client
        self._source = source
        self._memories: dict[Key, Memory] = {}
        self._leading_since = float("inf")
        self._queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key.namespace)
        self._caches = Caches(
            client,
            namespace=settings.watch_namespace,
            wake=self._queue.add,
            clock=time.monotonic,
            wall=_now,
        )
        self._horizon: Horizon[Key, Resource] = Horizon(self._caches.last_version)
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
        leadership = Leadership(self._election)
        self._meter = Meter(lambda: self._board.jobs, lambda: leadership.leads)
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
        await enter(_running(self._explain()))
        identity = await self._identify()
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
        await enter(_running(self._lead()))

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
        ages = self._caches.ages_seconds()
        stalled = {
            name: round(age)
            for name, age in ages.items()
            if age > _SILENT_SECONDS and name not in self._caches.failing
        }
        if stalled:
            raise RuntimeError(f"nothing was heard, not even a failure, for so many s: {stalled}")
        return ages

    def _unready(self) -> str | None:
        if not self._has_identity:
            return "the API server is being asked for the certificates that agents are shown"
        return None if self._caches.are_synced else "the caches are being filled"

    async def _explain(self) -> None:
        """Caches that stay empty have a reason, which people can do something about."""
        await asyncio.sleep(_FILLED_SECONDS)
        if not self._caches.are_synced:
            await preflight.explain(self._client, self._caches.selections)

    async def _identify(self) -> Identity:
        """Load the identity, for as long as it takes."""
        failures, roll = 0, Random().random  # noqa: S311 - jitter, not a secret
        while True:
            try:
                identity = await self._source.load()
            except (KubeError, OSError, ValueError) as error:
                failures += 1
                pause_seconds = Backoff().pause_seconds(
                    failures, roll, getattr(error, "retry_after_seconds", None)
                )
                log.warning(
                    "waiting for the certificates that agents are shown, again in %.1f s: %s",
                    pause_seconds,
                    error,
                )
                await asyncio.sleep(pause_seconds)
            else:
                self._has_identity = True
                return identity

    async def _lead(self) -> NoReturn:
        """Whenever this replica leads, work; when it no longer does, stop before another begins."""
        while True:
            await self._election.held.wait()
            self._leading_since = time.monotonic()
            await self._caches.synced()
            log.info("leading; %d jobs are known", self._caches.num_jobs)
            for key in self._caches.all_keys():
                self._queue.add(key)
            async with _running(self._queue.run(self._work, workers=self._settings.workers)):
                await self._election.lost.wait()
            await self._server.step_down()
            log.info("no longer leading")

    async def _work(self, key: Key) -> float | None:
        """Look at one job, decide, act; returns when to look again."""
        if not self._election.leads:
            return None
        if not self._horizon.caught_up(key):
            return _NOT_YET_SEEN_SECONDS
        context = logs.about(f"{key.namespace}/{key.name}")
        with self._meter.reconcile_seconds.time():
            again_seconds = await self._reconcile(key, context)
        return again_seconds if again_seconds < float("inf") else None

    async def _reconcile(self, key: Key, context: logs.LogContext) -> float:
        await self._let_go_of_orphans(key)
        memory = self._memories.setdefault(key, Memory())
        job = self._caches.snapshot(key, memory, self._leading_since)
        if job is None:
            return self._forget(key)
        if isinstance(job, BrokenJob):
            outcome = await self._executor.report(job, memory)
            if outcome.failure is not None:
                raise outcome.failure
            return outcome.again_seconds
        self._board.publish(published(job, job.status), int(job.version))
        doubted = self._ask_for_signs_of_life(job)
        decision = decide(job, _now())
        world = decision.status.world
        context.generation = world.generation if world is not None else None
        outcome = await self._executor.carry_out(job, decision, memory)
        if outcome.stored:
            for entry in diary.entries(job.status, decision):
                log.info("%s", entry)
        if outcome.failure is not None:
            raise outcome.failure
        again_seconds = decision.again_seconds if outcome.stored else float("inf")
        doubt_seconds = _DOUBT_SECONDS if doubted else float("inf")
        return min(
            outcome.again_seconds, again_seconds, doubt_seconds, self._caches.again_seconds(key)
        )

    def _ask_for_signs_of_life(self, job: JobSnapshot) -> bool:
        """Answer the held polls of workers in doubt: who lives asks again within milliseconds."""
        doubted = in_doubt(job)
        for worker in job.workers:
            if worker.serial in doubted:
                self._board.nudge(WorkerKey(job.namespace, job.name, worker.pod.name))
        return bool(doubted)

    async def _let_go_of_orphans(self, key: Key) -> None:
        """Pods whose job is no more are not held back by us.

        The cache of jobs may be behind that of pods, so the API server has the last word.
        """
        orphans = tuple(self._caches.orphans(key))
        if not orphans:
            return
        live_uid = await self._uid_of(key)
        for pod in orphans:
            if pod.owner_uid != live_uid:
                await self._executor.strip(key.namespace, pod.name, pod.uid)

    async def _uid_of(self, key: Key) -> str | None:
        try:
            job = await self._client.get(
                TRAINING_JOBS, key.name, JobObject, namespace=key.namespace
            )
        except NotFound:
            return None
        return job.metadata.uid

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
        return WorkerSettings(
            server=self._settings.advertise,
            ca_pem=self._server.bundle,
            restricted=self._settings.restricted,
        )


def _now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def _running(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
