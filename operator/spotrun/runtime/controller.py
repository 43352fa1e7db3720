"""The controller: it fills the caches, queues jobs, and reconciles each in its turn.

Every replica keeps its caches filled and answers agents; only the leader decides.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NoReturn, Self
from uuid import uuid4

from spotrun.act.bills import BillWriter
from spotrun.act.executor import Executor
from spotrun.act.jobs.spending import SpendKeeper
from spotrun.act.manifests.worker_settings import Settings as WorkerSettings
from spotrun.act.pools import PoolWriter
from spotrun.act.tuning import TuningWriter
from spotrun.agents.leadership import Leadership
from spotrun.agents.long_poll import Board
from spotrun.agents.published import publish
from spotrun.agents.tokens import Tokens, review_by
from spotrun.http.probes import health, plain_server
from spotrun.http.tls import Identity, Source, load_patiently
from spotrun.kube.lease import Election, Terms
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.kube.tasks import first_of, running
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.kube.workqueue.leader_work import LeaderWork
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.metrics.deleted_jobs import DeletedJobs
from spotrun.metrics.exposition import Exposition
from spotrun.metrics.pools import KnownPool
from spotrun.metrics.registry import Meter
from spotrun.observe.caches import Caches
from spotrun.observe.prices.tables import NOBODY, PriceSources
from spotrun.runtime import memory_tuning, preflight
from spotrun.runtime.agent_server import Server
from spotrun.runtime.agent_server import Settings as ServerSettings
from spotrun.runtime.asking.suggestions import answer, timed
from spotrun.runtime.reconciler import Reconciler
from spotrun.runtime.tuning import TuningReconciler
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot

log = logging.getLogger(__name__)

_ORPHANS_AT_ONCE = 4  # names of jobs; the writes themselves are bounded by `act`
_SEARCHES_AT_ONCE = 8  # they wait for answers of the API server and of processes
_SPEND_SECONDS, _NAMESPACES_AT_ONCE = 0.2, 4
"""Many jobs are created at the same time; this pause lets one decision about limits cover them."""
_POOL_SECONDS, _POOLS_AT_ONCE = 1.0, 4
"""Many nodes and workers come or go at the same time; one decision about a pool covers them."""


@dataclass(frozen=True)
class Settings:
    """The settings of one replica."""

    namespace: str  # where its Lease and its Secret are
    advertise: str  # host:port that agents are given: a Service, or this machine
    address: str  # host:port of this replica: standbys send agents there when it is the leader
    watch_namespace: str | None = None  # None: all
    price_sources: PriceSources = NOBODY
    inject_image: str = ""  # it brings the package into images that do not have it
    trainer_image: str = ""  # this one has the package
    restricted: bool = False
    kueue: bool = False  # whether Kueue admits the jobs that name a queue
    kueue_priority_boost: int = 0  # the most that the price of an interruption adds to a priority
    preempt_across_namespaces: bool = False
    workers: int = 64  # jobs worked on at once; most wait for answers to writes, limited by `act`
    agents: ServerSettings = field(default_factory=ServerSettings)
    plain_host: str = ""
    plain_port: int = 8080
    terms: Terms = field(default_factory=Terms)


class Controller:
    """One replica of the operator; works while its `async with` block lasts.

    Changes of jobs and pools go to `feed`, whose reader (kopf) calls `job_changed` and
    `pool_changed`; changes of their pods and nodes are handled here.
    """

    def __init__(self, settings: Settings, client: Client, source: Source, feed: Feed) -> None:
        self._settings = settings
        self._client = client
        self._source = source
        self._feed = feed
        self._leading_since = float("inf")
        self._urgent: set[Key] = set()
        self._queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key.namespace)
        self._orphan_queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key.namespace)
        self._pool_queue: WorkQueue[str] = WorkQueue()
        self._search_queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key.namespace)
        self._spend_queue: WorkQueue[str] = WorkQueue()
        self._caches = Caches(
            client,
            namespace=settings.watch_namespace,
            wake=self._queue.add,
            hurry=self._asked,
            wake_at_once=lambda key: self._queue.add(key, urgent=True),
            orphaned=self._orphan_queue.add,
            feed=feed,
            wake_pool=self.pool_changed,
            wake_tuning=self.search_changed,
            wake_spending=lambda name: self._spend_queue.add_after(name, _SPEND_SECONDS),
            price_sources=settings.price_sources,
            has_kueue=settings.kueue,
            most_boost=settings.kueue_priority_boost,
            preempts_across_namespaces=settings.preempt_across_namespaces,
            clock=time.monotonic,
            wall=client.clock.now,
        )
        self._horizon: Horizon[Key, Resource] = Horizon(self._caches, time.monotonic)
        self._pool_writer = PoolWriter(
            client,
            self._caches,
            self._horizon,
            leads=lambda: self.leads,
            clock=time.monotonic,
            wall=client.clock.now,
            is_sure=lambda: client.clock.is_sure,
        )
        self._spend_keeper = SpendKeeper(
            client,
            self._caches,
            self._horizon,
            leads=lambda: self.leads,
            clock=time.monotonic,
            wall=client.clock.now,
        )
        self._bills = BillWriter(
            client,
            self._caches,
            self._horizon,
            settings.namespace,
            leads=lambda: self.leads,
            wall=client.clock.now,
            watch_namespace=settings.watch_namespace,
        )
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
        """Open probes first; become a candidate for the Lease only once agents are served."""
        enter = self._stack.enter_async_context
        self._election = self._candidate()
        leadership = Leadership(self._election, self._settings.address)
        await self._answer_probes(leadership)
        await self._fill_caches()
        identity = await load_patiently(self._source)
        self._has_identity = True
        self._board = Board(identity.world_key)
        self._board.forget()  # before it is the leader, it does not even know which jobs exist
        self._server = self._server_of(identity, leadership)
        self._reconciler = self._new_reconciler()
        self._searches = self._new_tuning_reconciler()
        await enter(self._server)
        await enter(self._election)
        self._leading = await enter(running(self._lead()))

    def _candidate(self) -> Election:
        own = self._settings
        return Election(
            self._client,
            namespace=own.namespace,
            name="spotrun",
            identity=f"{own.address}/{uuid4().hex[:12]}",
            terms=own.terms,
        )

    async def _answer_probes(self, leadership: Leadership) -> None:
        queues: dict[str, WorkQueue[Any]] = {
            "trainingjobs": self._queue,
            "capacitypools": self._pool_queue,
            "tuningjobs": self._search_queue,
            "spendlimits": self._spend_queue,
        }
        self._deleted_jobs = DeletedJobs(time.monotonic)
        self._meter = Meter(
            lambda: self._board.jobs,
            lambda: leadership.leads,
            queues,
            deleted_jobs=self._deleted_jobs,
            searches=lambda: self._caches.tuning.known,
            pools=lambda: (
                KnownPool(pool.name, pool.spec.capacity, pool.status)
                for pool in self._caches.pools.known
            ),
            limits=lambda: self._caches.spending.known,
        )
        metrics = Exposition(self._meter.registry, time.monotonic)
        server = plain_server(
            {"/metrics": metrics.page, "/readyz": health(self._unready)},
            host=self._settings.plain_host,
            port=self._settings.plain_port,
        )
        self.plain = await self._stack.enter_async_context(server)

    async def _fill_caches(self) -> None:
        enter, caches = self._stack.enter_async_context, self._caches
        await enter(caches)
        explain = preflight.explain_if_empty(
            self._client, caches.selections, lambda: caches.are_synced
        )
        await enter(running(explain))
        if (only := self._settings.watch_namespace) is not None:
            exists = partial(caches.pools.has_namespace, only)
            await enter(running(preflight.warn_if_missing(only, caches.synced, exists)))
        await enter(running(memory_tuning.keep_small(caches.synced())))

    def _server_of(self, identity: Identity, leadership: Leadership) -> Server:
        return Server(
            self._settings.agents,
            self._board,
            self._caches.agents,
            Tokens(review_by(self._client), wall=lambda: self._client.clock.now().timestamp()),
            leadership,
            source=self._source,
            identity=identity,
            wake=lambda key: self._queue.add(key, urgent=True),
            meter=self._meter,
            wall=self._client.clock.now,
        )

    def _new_reconciler(self) -> Reconciler:
        roll = Random().random  # noqa: S311 - jitter, not a secret
        executor = Executor(
            self._client,
            self._horizon,
            self._worker_settings,
            self._stored,
            leads=lambda: self.leads,
            clock=time.monotonic,
            wall=self._client.clock.now,
            roll=roll,
            count_failure=self._meter.count_failure,
            instance=self._settings.address,
        )
        return Reconciler(
            self._client,
            self._caches,
            self._board,
            executor,
            self._deleted_jobs,
            queue=self._queue,
            horizon=self._horizon,
            clock=time.monotonic,
            roll=roll,
            wall=self._client.clock.now,
            orphaned=self._orphan_queue.add,
            bill_deleted=self._bills.note_deleted,
            is_sure=lambda: self._client.clock.is_sure,
            count_failure=self._meter.count_failure,
        )

    def _new_tuning_reconciler(self) -> TuningReconciler:
        # A separate one: a TuningJob and a TrainingJob may have the same name.
        horizon: Horizon[Key, Resource] = Horizon(self._caches, time.monotonic)
        wall = self._client.clock.now
        writer = TuningWriter(
            self._client,
            horizon,
            leads=lambda: self.leads,
            clock=time.monotonic,
            wall=wall,
            instance=self._settings.address,
        )
        suggest = timed(answer, self._meter.suggestion_seconds)
        return TuningReconciler(
            self._caches,
            writer,
            horizon,
            suggest,
            wake=self.search_changed,
            clock=time.monotonic,
            wall=wall,
        )

    @property
    def port(self) -> int:
        """The port on which agents are served."""
        return self._server.port

    @property
    def leads(self) -> bool:
        """Whether this replica decides."""
        return self._election.leads

    def job_changed(self, key: Key) -> None:
        """Reconcile a job soon; at once if a user has changed it."""
        self._queue.add(key, urgent=key in self._urgent)
        self._urgent.discard(key)

    def _asked(self, key: Key) -> None:
        """Note that a user has changed or deleted a job, which kopf is about to report."""
        if not self._feed.is_paused:
            self._urgent.add(key)

    def pool_changed(self, name: str) -> None:
        """Bring a pool up to date after a short pause."""
        self._pool_queue.add_after(name, _POOL_SECONDS)

    def search_changed(self, key: Key) -> None:
        """Reconcile a TuningJob soon."""
        self._search_queue.add(key)

    def stalled(self) -> str | None:
        """Return which caches receive nothing any more; None if all receive changes."""
        return self._caches.stalled()

    async def until_broken(self) -> None:
        """Raise the error that ended the leader's work; another replica then gets the Lease."""
        await asyncio.shield(self._leading)

    def _unready(self) -> str | None:
        if not self._has_identity:
            return "reading the agents' certificates from the API server"
        if not self._caches.are_synced:
            return "filling the caches"
        return self._caches.blind()

    async def _lead(self) -> NoReturn:
        """Work while this replica is the leader, and stop before another one begins."""
        works = self._works()
        while True:
            # Otherwise a replica that stands by for weeks would collect the names of all old jobs.
            self._feed.pause()
            self._urgent.clear()
            for one in works:
                one.queue.close()
            await self._election.held.wait()
            self._leading_since = time.monotonic()
            self._caches.rewound.clear()
            await self._caches.synced()
            log.info("this replica is the leader; %d jobs are known", self._caches.num_jobs)
            self._caches.spending.forget_all()
            await self._caches.survey()
            self._spend_keeper.begin()
            self._begin(works)
            async with AsyncExitStack() as work:
                for one in works:
                    await work.enter_async_context(running(one.run(lambda: self.leads)))
                await work.enter_async_context(running(self._caches.usage.follow()))
                await work.enter_async_context(running(self._bills.run()))
                work.callback(self._searches.stop_asking)
                await first_of(self._election.lost.wait(), self._caches.rewound.wait())
            await self._server.step_down()
            if self._caches.rewound.is_set():
                log.warning(
                    "the API server shows an older state than before (etcd was "
                    "restored?): all caches are filled again"
                )
            else:
                log.info("this replica is no longer the leader")

    def _works(self) -> tuple[LeaderWork[Any], ...]:
        caches, jobs = self._caches, self._known_jobs
        return (
            LeaderWork(self._queue, self._work, self._settings.workers, jobs),
            LeaderWork(self._orphan_queue, self._let_go, _ORPHANS_AT_ONCE, jobs),
            LeaderWork(
                self._pool_queue, self._pool_writer.keep, _POOLS_AT_ONCE, caches.pools.names
            ),
            LeaderWork(
                self._search_queue,
                self._searches.reconcile,
                _SEARCHES_AT_ONCE,
                caches.tuning.all_keys,
            ),
            LeaderWork(
                self._spend_queue,
                self._spend_keeper.keep,
                _NAMESPACES_AT_ONCE,
                caches.spending.namespaces,
            ),
        )

    def _known_jobs(self) -> set[Key]:
        """Return all jobs, and those of this replica's earlier term as leader."""
        return {*self._caches.all_keys(), *self._reconciler.remembered}

    def _begin(self, works: Iterable[LeaderWork[Any]]) -> None:
        """Queue all that is known; jobs that lost a worker while there was no leader come first."""
        self._feed.resume()
        known = self._known_jobs()
        self._board.expect(known)
        for one in works:
            one.begin()
        for key in known & self._caches.jobs.with_ended_workers():
            self._queue.add(key, urgent=True)

    async def _work(self, key: Key) -> float | None:
        """Observe one job, decide, act; returns after how many seconds to do so again."""
        if unseen_seconds := self._reconciler.unseen_seconds(key):
            return unseen_seconds
        with self._meter.reconciling():
            wake_after_seconds = await self._reconciler.reconcile(key, self._leading_since)
        self._board.looked_at(key)
        return wake_after_seconds if wake_after_seconds < float("inf") else None

    async def _let_go(self, key: Key) -> float | None:
        """Release the pods of deleted jobs of a name."""
        if unseen_seconds := self._reconciler.unseen_seconds(key):
            return unseen_seconds
        await self._bills.close(key)
        with self._meter.reconciling():
            await self._reconciler.let_go_of_orphans(key)
        return None

    def _stored(self, job: JobSnapshot, status: JobState, version: str) -> None:
        publish(self._board, job, status, version)
        self._bills.note(job, status)
        self._meter.preemptions.count(job, status)

    def _worker_settings(self) -> WorkerSettings:
        own = self._settings
        return WorkerSettings(
            own.advertise,
            self._server.bundle,
            inject_image=own.inject_image,
            trainer_image=own.trainer_image,
            restricted=own.restricted,
        )
