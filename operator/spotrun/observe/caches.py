"""All caches of one replica of the operator, and the snapshot of a job made from all of them."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.kube.watch.reflector import Reflector
from spotrun.money.price_sources import Catalog
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.jobs.device_claims import (
    NO_DEVICE_CLAIMS,
    NO_DEVICES,
    DeviceClaims,
    Devices,
    device_claims_of,
)
from spotrun.observe.jobs.gang_lines import Gangs
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.jobs.orphans import Orphan, orphans_among
from spotrun.observe.jobs.preemptions import Preemptions
from spotrun.observe.jobs.shared_nodes import shared_nodes, with_claimed_devices
from spotrun.observe.jobs.snapshot import job_snapshot
from spotrun.observe.jobs.spend_limits import SpendLimits
from spotrun.observe.jobs.victims import Victims
from spotrun.observe.jobs.volumes import NO_CLAIMS, UNKNOWN, Claims, Storage, claims_of
from spotrun.observe.kube_objects import (
    CAPACITY_POOLS,
    TRAINING_JOBS,
    TUNING_JOBS,
    JobObject,
    NodeObject,
    PodObject,
)
from spotrun.observe.nodes.facts import Nodes
from spotrun.observe.pools.caches import Listeners, PoolCaches
from spotrun.observe.prices.bucket_prices import storage_price
from spotrun.observe.prices.node_prices import Prices
from spotrun.observe.prices.tables import NOBODY, PriceSources, PriceTables
from spotrun.observe.queues.caches import QueueCaches
from spotrun.observe.sync import Following
from spotrun.observe.telemetry.agents import Agents
from spotrun.observe.telemetry.metrics_server import Usage
from spotrun.observe.tuning.caches import TuningCaches
from spotrun.policies.fallback_chain import undecided
from spotrun.policies.placement.queueing.gang import wants_nodes
from spotrun.policies.tuning.money import free_workers, market_rate
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.state.names import template_hash
from spotrun.state.snapshot import JobSnapshot, Node

log = logging.getLogger(__name__)

Wake = Callable[[Key], None]


class Caches(Following):
    """All caches, kept up to date in an `async with` block; `wake` is called with jobs' keys.

    Changes of the TrainingJob and CapacityPool objects go to `feed`, which passes them to kopf.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        wake: Wake,
        feed: Feed,
        hurry: Wake = lambda _: None,
        wake_at_once: Wake | None = None,
        orphaned: Wake = lambda _: None,
        wake_pool: Callable[[str], None] = lambda _: None,
        wake_tuning: Wake = lambda _: None,
        wake_spending: Callable[[str], None] = lambda _: None,
        price_sources: PriceSources = NOBODY,
        has_kueue: bool = False,
        most_boost: int = 0,
        preempts_across_namespaces: bool = False,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._wake = wake
        self._wake_pool = wake_pool
        self._wake_tuning = wake_tuning
        self._feed_job = feed.handler(TRAINING_JOBS)
        self._clock = clock
        self._wall = wall
        self._stack = AsyncExitStack()
        self.jobs = jobs = JobCaches(
            client,
            namespace=namespace,
            wake=wake,
            hurry=hurry,
            orphaned=orphaned,
            job_changed=self._job_changed,
            pod_changed=self._pod_changed,
            node_changed=self._node_changed,
        )
        self.pools = pools = self._pools_of(jobs, client, namespace, feed)
        self._tables = PriceTables(
            client, price_sources, offered=pools.offered, changed=self._use_prices
        )
        self.tuning = TuningCaches(
            client, namespace=namespace, changed=feed.handler(TUNING_JOBS), jobs=jobs
        )
        self.spending = SpendLimits(
            client, namespace=namespace, jobs=jobs, wake=wake, look=wake_spending, wall=wall
        )
        parts = (jobs, pools, self._tables, self.tuning, self.spending)
        super().__init__({name: one for part in parts for name, one in part.reflectors.items()})
        self._queues = QueueCaches(
            client,
            namespace=namespace,
            wake=wake,
            hurry=wake_at_once or wake,
            follow=self._follow_queues,
            is_enabled=has_kueue,
            most_boost=most_boost,
        )
        self.awaits(self._queues.known)
        self.prices = Prices(pools.price_of, wall, self._tables.catalog)
        self.agents = Agents(clock)
        self.usage = Usage(client, clock=clock, wake=wake, pods_of=jobs.pods_of)
        self._nodes = Nodes(
            jobs.node, clock=clock, wall=wall, place=pools.place, events=pools.events_of
        )
        self._gangs = Gangs(wake, wall)
        victims = Victims(
            jobs,
            pools,
            self.agents.facts,
            wall,
            across_namespaces=preempts_across_namespaces,
        )
        self._preemptions = Preemptions(jobs, victims, wake, wall)
        self._uids: dict[Key, str] = {}

    async def __aenter__(self) -> Self:
        parts = (self.jobs, self._tables, self.pools, self.tuning, self.spending, self._queues)
        for part in parts:
            await self._stack.enter_async_context(part)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def num_jobs(self) -> int:
        """The number of existing jobs."""
        return len(self.jobs.objects.store)

    @property
    def jobs_version(self) -> int:
        """The newest version of jobs that the cache has seen."""
        return self.jobs.objects.last_version

    def all_keys(self) -> list[Key]:
        """The names of all jobs, and of those that only have pods left."""
        return self.jobs.all_keys()

    def claims_of(self, key: Key) -> Claims:
        """The claims that all workers of a job will have to mount."""
        found = self.jobs.spec_and_state(key)
        return NO_CLAIMS if found is None else claims_of(*found, key.namespace)

    def device_claims_of(self, key: Key) -> DeviceClaims:
        """The device claims with which a job's workers are created."""
        found = self.jobs.spec_and_state(key)
        claims = NO_DEVICE_CLAIMS if found is None else device_claims_of(*found, key.namespace)
        if not claims.claims:
            return claims
        return replace(claims, is_on_pods=self.jobs.has_devices_on_pods(key))

    def snapshot(
        self,
        key: Key,
        memory: Memory,
        leading_since: float,
        storage: Storage = UNKNOWN,
        devices: Devices = NO_DEVICES,
    ) -> JobSnapshot | None:
        """Return a job and all that belongs to it, as known now; None if there is no such job."""
        job = self.jobs.get(key)
        memory.keep_only(job.metadata.uid if job is not None else None, leading_since)
        if job is None:
            return None
        self._renamed(key, job.metadata.uid)
        self.pools.promises.take_back(key)
        seen = job_snapshot(
            job,
            self.jobs.pods_of(key),
            self._look_at,
            self.agents,
            readings=self.jobs.readings,
            memory=memory,
            now=self._wall(),
            now_seconds=self._clock(),
            leading_since=leading_since,
            storage=storage,
            devices=devices,
        )
        seen = replace(seen, queue=self._queues.queue_of(job, seen.template))
        seen = with_claimed_devices(seen, self.jobs.pods_on, self.jobs.is_worker)
        if seen.broken is not None or seen.deleting or seen.is_handed_over:
            self._gangs.forget(key)
            self._preemptions.forget(key)
            self.usage.forget(
                key
            )  # else the metrics server is queried until somebody repairs the job
            return seen
        try:
            return self._with_surroundings(seen)
        except Exception as error:  # handled like a failing policy; the log has the traceback
            log.exception("%s/%s: failed to look up pools, other jobs and the job's turn", *key)
            return undecided(seen, error)

    def _with_surroundings(self, seen: JobSnapshot) -> JobSnapshot:
        """Add the surroundings of a job: pools, autoscalers, other jobs, and its turn."""
        seen = replace(
            self.usage.added_to(seen),
            storage_price=storage_price(seen, self.prices.catalog),
            market=self.pools.market_for(seen).within(seen.queue),
            requests=replace(
                self.pools.requests_of(seen.spec, seen.template), claimed=seen.claimed
            ),
            turned_down=self.pools.turned_down(seen),
            shared_nodes=shared_nodes(seen, self.jobs.pods_on),
        )
        seen = self.spending.added_to(seen)
        seen = replace(seen, may_hold_nodes=self._gangs.may_hold_nodes(seen))
        return replace(seen, precedence=self._preemptions.look_at(seen))

    def search(self, key: Key) -> TuningSnapshot | None:
        """Return a search and what is known of its trials and of the market for them."""
        found = self.tuning.snapshot(key)
        if found is None:
            return None
        spec = found.spec.template.spec
        template = template_hash(spec)
        market = self.pools.market_of(spec, template, key.namespace)
        rate = market_rate(spec, market, self.pools.requests_of(spec, template))
        return replace(found, usd_per_hour=rate, free_workers=free_workers(spec, market))

    async def survey(self) -> None:
        """Look once at all jobs that may wait in a line, before the first job is decided.

        Facts from an earlier term as leader no longer count: if a job was first in line then, but
        trains or is gone by now, the other jobs would give their nodes back for it.
        """
        self._gangs.forget_all()
        self._preemptions.forget_all()
        self.usage.forget_all()
        self.pools.promises.take_all_back()
        for key in self.all_keys():
            try:
                if self._wants_nodes(key):
                    self.snapshot(key, Memory(), self._clock())
            except Exception:
                # The bug shows again when this job is reconciled; the other jobs must not wait for
                # it.
                log.exception("%s/%s: the operator could not examine the job", *key)
            await asyncio.sleep(0)  # thousands of jobs take a while

    def _wants_nodes(self, key: Key) -> bool:
        """Whether a job may wait in line; pods are not read, as a job that trains does not wait."""
        found = self.jobs.spec_and_state(key)
        return found is not None and wants_nodes(*found)

    def wake_after_seconds(self, key: Key) -> float:
        """Return the seconds until the operator must look at a job again even if nothing happens.

        By then a node may count as gone, or the job's turn to hold nodes may be over.
        """
        names = {pod.spec.node_name for pod in self.jobs.pods_of(key)}
        waits = (self._nodes.wake_after_seconds(name) for name in names if name)
        lines = (self._gangs, self._preemptions)
        return min(*(one.wake_after_seconds(key) for one in lines), *waits)

    def orphans(self, key: Key) -> Iterator[Orphan]:
        """Return the pods of that name's deleted jobs that still have our finalizer."""
        return orphans_among(self.jobs.pods_of(key), self.jobs.uid_of(key))

    def forget(self, key: Key) -> None:
        """Forget a deleted job."""
        self._gangs.forget(key)
        self._preemptions.forget(key)
        self.usage.forget(key)
        self.pools.promises.take_back(key)
        self._renamed(key, None)

    def _pools_of(
        self, jobs: JobCaches, client: Client, namespace: str | None, feed: Feed
    ) -> PoolCaches:
        """Return the caches of pools, fed with these nodes and workers; they wake affected jobs."""
        return PoolCaches(
            client,
            namespace=namespace,
            nodes=jobs.node,
            pods_on=jobs.pods_on,
            job_of=jobs.job_of,
            catalog=lambda: self.prices.catalog,
            listeners=Listeners(
                object=feed.handler(CAPACITY_POOLS),
                pool=self._wake_pool,
                node=jobs.wake_on,
                pod=jobs.wake_job_of,
                market=jobs.wake_all,
            ),
            wall=self._wall,
        )

    def _follow_queues(self, reflectors: Mapping[str, Reflector[Any]]) -> None:
        """Also follow Kueue's objects; jobs that name a queue may then continue, or must wait."""
        self.follow_also(reflectors)
        for job in self.jobs.objects.store:
            if job.metadata.labels.queue:
                self._wake(Key(job.metadata.namespace, job.metadata.name))

    def _look_at(self, node: str) -> Node:
        return self.prices.priced(self._nodes.look(node))

    def _renamed(self, key: Key, uid: str | None) -> None:
        """Forget the predecessor of a job that was re-created under its name."""
        known = self._uids.get(key)
        if known is not None and known != uid:
            self.agents.forget(known)
            del self._uids[key]
        if uid is not None:
            self._uids[key] = uid

    def _job_changed(self, old: JobObject | None, new: JobObject | None) -> None:
        self._feed_job(old, new)
        self.spending.job_changed(old, new)
        for job in (old, new):
            if job is not None and job.metadata.owner_name:
                self._wake_tuning(Key(job.metadata.namespace, job.metadata.owner_name))

    def _pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        self.pools.pod_changed(old, new)

    def _node_changed(self, old: NodeObject | None, new: NodeObject | None) -> None:
        self.pools.pools.node_changed(old, new)

    def _use_prices(self, catalog: Catalog) -> None:
        self.prices.catalog = catalog
        self.jobs.wake_all()
        for name in self.pools.pools.names():
            self._wake_pool(name)
