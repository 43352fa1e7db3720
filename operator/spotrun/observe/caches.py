"""The caches of one replica: jobs, their pods, the nodes, and what agents said last.

A change of any of them wakes the jobs that it concerns; a snapshot is taken from all at once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from spotrun.api.names import LABEL_JOB, LABEL_JOB_UID
from spotrun.api.status import TrainingJobStatus
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.decide.gang import wants_nodes
from spotrun.decide.snapshot import JobSnapshot, Node
from spotrun.kube.client import Client, Selection
from spotrun.kube.reflector import Reflector
from spotrun.kube.resource import Key
from spotrun.kube.tasks import running
from spotrun.money.catalog import Catalog
from spotrun.observe.agents import Agents
from spotrun.observe.following import Following
from spotrun.observe.gangs import Gangs
from spotrun.observe.memory import Memory
from spotrun.observe.neighbours import shared_nodes
from spotrun.observe.nodes import Nodes
from spotrun.observe.objects import (
    NODES,
    PODS,
    TRAINING_JOBS,
    JobObject,
    NodeObject,
    PodObject,
)
from spotrun.observe.orphans import Orphan, orphans_among
from spotrun.observe.pods import serial_in
from spotrun.observe.pool_caches import Listeners, PoolCaches
from spotrun.observe.price_tables import NOBODY, PriceSources, PriceTables
from spotrun.observe.prices import Prices
from spotrun.observe.snapshot import BrokenJob, Readings, job_snapshot
from spotrun.observe.usage import Usage
from spotrun.observe.volumes import NO_CLAIMS, UNKNOWN, Claims, Storage, claims_of

log = logging.getLogger(__name__)

Wake = Callable[[Key], None]


class Caches(Following):
    """Kept up to date while an `async with` block lasts; `wake` is called with jobs' keys."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        wake: Wake,
        wake_pool: Callable[[str], None] = lambda _: None,
        price_sources: PriceSources = NOBODY,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self.agents = Agents(clock)
        self._wake = wake
        self._wake_pool = wake_pool
        self._clock = clock
        self._wall = wall
        self._readings = Readings()
        self._uids: dict[Key, str] = {}
        self._jobs: Reflector[JobObject] = Reflector(
            client, Selection(TRAINING_JOBS, namespace), JobObject, self._job_changed
        )
        self._pods: Reflector[PodObject] = Reflector(
            client,
            Selection(PODS, namespace, label_selector=LABEL_JOB_UID),
            PodObject,
            self._pod_changed,
            indices={"job": _of_job, "node": _of_node},
        )
        self._nodes: Reflector[NodeObject] = Reflector(
            client, Selection(NODES), NodeObject, self._node_changed
        )
        self._gangs = Gangs(wake, wall)
        self.usage = Usage(client, clock=clock, wake=wake, pods_of=self._pods_of)
        self.pools = PoolCaches(
            client,
            namespace=namespace,
            nodes=self._node,
            pods_on=self._pods_on,
            job_of=self._job_of,
            catalog=lambda: self.prices.catalog,
            listeners=Listeners(wake_pool, self._wake_on, self._wake_job_of, self._wake_all),
            wall=wall,
        )
        self._node_book = Nodes(
            self._node, clock=clock, wall=wall, place=self.pools.place, said=self.pools.said
        )
        self._tables = PriceTables(
            client, price_sources, offered=self.pools.offered, changed=self._use_prices
        )
        self.prices = Prices(self.pools.price_of, wall, self._tables.catalog)
        super().__init__(
            {
                "trainingjobs": self._jobs,
                "pods": self._pods,
                "nodes": self._nodes,
                **self.pools.reflectors,
                **self._tables.reflectors,
            }
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        own: list[Reflector[Any]] = [self._jobs, self._pods, self._nodes]
        for reflector in own:
            await enter(running(reflector.run()))
        await enter(self._tables)
        await enter(self.pools)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return len(self._jobs.store)

    @property
    def jobs_version(self) -> int:
        """The newest version of jobs that the cache has seen."""
        return self._jobs.last_version

    def all_keys(self) -> Iterable[Key]:
        """The names of all jobs, and of those that only have pods left."""
        of_pods = {_key_of(pod) for pod in self._pods.store}
        return sorted(self._jobs.store.names() | of_pods)

    def claims_of(self, key: Key) -> Claims:
        """The claims that all workers of a job will have to mount."""
        said = self._said(key)
        return NO_CLAIMS if said is None else claims_of(*said, key.namespace)

    def snapshot(
        self, key: Key, memory: Memory, leading_since: float, storage: Storage = UNKNOWN
    ) -> JobSnapshot | BrokenJob | None:
        """A job and all that belongs to it, as it is known now; None if there is no such job."""
        job = self._jobs.get(*key)
        if job is None:
            return None
        self._renamed(key, job.metadata.uid)
        seen = job_snapshot(
            job,
            self._pods_of(key),
            self._look_at,
            self.agents,
            readings=self._readings,
            memory=memory,
            now=self._wall(),
            now_seconds=self._clock(),
            leading_since=leading_since,
            volume_is_shared=storage.is_shared,
        )
        if isinstance(seen, BrokenJob):
            self._gangs.forget(key)
            return seen
        seen = replace(
            self.usage.added_to(seen),
            market=self.pools.market_for(seen),
            requests=self.pools.requests_of(seen),
            turned_down=self.pools.turned_down(seen),
            shared_nodes=shared_nodes(seen, self._pods_on),
            volume_zones=storage.zones,
        )
        return replace(seen, may_hold_nodes=self._gangs.may_hold_nodes(seen))

    async def survey(self) -> None:
        """Look once at all jobs that may stand in line, before the first is decided."""
        for key in self.all_keys():
            try:
                if self._wants_nodes(key):
                    self.snapshot(key, Memory(), self._clock())
            except Exception:
                # A bug that its own turn will show again; the other jobs must not wait for it.
                log.exception("looking at %s/%s failed", *key)
            await asyncio.sleep(0)  # thousands take a while

    def _wants_nodes(self, key: Key) -> bool:
        """Told without a look at its pods: of thousands that train nobody stands in line."""
        said = self._said(key)
        return said is not None and wants_nodes(*said)

    def _said(self, key: Key) -> tuple[TrainingJobSpec, TrainingJobStatus] | None:
        """What a job's object says; None if there is none, or it makes no sense."""
        job = self._jobs.get(*key)
        spec = self._readings.spec(job).spec if job is not None else None
        status = self._readings.status(job).status if job is not None else None
        return None if spec is None or status is None else (spec, status)

    def again_seconds(self, key: Key) -> float:
        """When a job has to be looked at again though nothing happens.

        A node may turn out to be gone, or the job's turn to hold nodes be over.
        """
        names = {pod.spec.node_name for pod in self._pods_of(key)}
        waits = (self._node_book.again_seconds(name) for name in names if name)
        return min(self._gangs.again_seconds(key), *waits, float("inf"))

    def orphans(self, key: Key) -> Iterator[Orphan]:
        """The pods of that name's former jobs that still wait for us."""
        job = self._jobs.get(*key)
        uid = job.metadata.uid if job is not None else None
        return orphans_among(self._pods_of(key), uid)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._gangs.forget(key)
        self.usage.forget(key)
        self._renamed(key, None)

    def _look_at(self, node: str) -> Node:
        return self.prices.priced(self._node_book.look(node))

    def _renamed(self, key: Key, uid: str | None) -> None:
        """A job that was re-created under its name has nothing of its predecessor."""
        known = self._uids.get(key)
        if known is not None and known != uid:
            self.agents.forget(known)
            del self._uids[key]
        if uid is not None:
            self._uids[key] = uid

    def _job_changed(self, old: JobObject | None, new: JobObject | None) -> None:
        job = new or old
        assert job is not None, "a change has an old or a new side"
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._readings.forget(old.metadata.uid)  # every replica reads it, also who decides none
        self._wake(Key(job.metadata.namespace, job.metadata.name))

    def _pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        self.pools.pools.pod_changed(old, new)
        for pod in (old, new):
            if pod is not None:
                self._wake_job_of(pod)

    def _node_changed(self, old: NodeObject | None, new: NodeObject | None) -> None:
        if old is not None and new is not None and _matters(old) == _matters(new):
            return
        node = new or old
        assert node is not None, "a change has an old or a new side"
        self.pools.pools.node_changed(old, new)
        self._wake_on(node.metadata.name)

    def _wake_on(self, node: str) -> None:
        for pod in self._pods_on(node):
            self._wake_job_of(pod)

    def _wake_job_of(self, pod: PodObject) -> None:
        self._wake(_key_of(pod))

    def _pods_of(self, key: Key) -> Iterable[PodObject]:
        return self._pods.by_index("job", key)

    def _pods_on(self, node: str) -> Iterable[PodObject]:
        return self._pods.by_index("node", node)

    def _use_prices(self, catalog: Catalog) -> None:
        self.prices.catalog = catalog
        self._wake_all()
        for name in self.pools.pools.names():
            self._wake_pool(name)

    def _wake_all(self) -> None:
        for key in self._jobs.store.names():
            self._wake(key)

    def _node(self, name: str) -> NodeObject | None:
        return self._nodes.get("", name)

    def _job_of(self, pod: PodObject) -> tuple[TrainingJobSpec, str] | None:
        job = self._jobs.get(*_key_of(pod))
        if job is None:
            return None
        read, status = self._readings.spec(job), self._readings.status(job).status
        given_out = (status.next_serial if status is not None else None) or 0
        meta = job.metadata
        if read.spec is None or serial_in(pod, meta.name, meta.uid, given_out) is None:
            return None
        return read.spec, read.template


def _key_of(pod: PodObject) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.labels.get(LABEL_JOB, ""))


def _of_job(pod: PodObject) -> Iterable[Key]:
    return (_key_of(pod),)


def _of_node(pod: PodObject) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _matters(node: NodeObject) -> tuple[object, ...]:
    """What anybody concludes from a node: not its version, which every heartbeat moves."""
    meta = node.metadata
    return (meta.deletion_timestamp, meta.labels, meta.annotations, node.spec, node.status)
