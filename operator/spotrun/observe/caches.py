"""The caches of one replica: jobs, their pods, the nodes, and what agents said last.

A change of any of them wakes the jobs that it concerns; a snapshot is taken from all at once.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn, Self

from spotrun.api.names import FINALIZER_METERED, LABEL_JOB, LABEL_JOB_UID
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.decide.snapshot import JobSnapshot, Node
from spotrun.decide.view import holds_back
from spotrun.kube.client import Client, Selection
from spotrun.kube.reflector import Reflector
from spotrun.kube.resource import Key
from spotrun.money.catalog import Catalog
from spotrun.observe.agents import Agents
from spotrun.observe.following import Following
from spotrun.observe.gangs import Gangs
from spotrun.observe.memory import Memory
from spotrun.observe.nodes import Nodes
from spotrun.observe.objects import (
    NODES,
    PODS,
    TRAINING_JOBS,
    JobObject,
    NodeObject,
    PodObject,
)
from spotrun.observe.pool_caches import Listeners, PoolCaches
from spotrun.observe.price_tables import catalog_of, price_tables
from spotrun.observe.prices import Prices
from spotrun.observe.snapshot import BrokenJob, Readings, job_snapshot

Wake = Callable[[Key], None]


@dataclass(frozen=True)
class Orphan:
    """A pod with our finalizer whose job is no more."""

    name: str
    uid: str
    owner_uid: str | None


class Caches(Following):
    """Kept up to date while an `async with` block lasts; `wake` is called with jobs' keys."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        wake: Wake,
        wake_pool: Callable[[str], None] = lambda _: None,
        price_table: Key | None = None,
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
        self.pools = PoolCaches(
            client,
            namespace=namespace,
            nodes=self._node,
            pods_on=lambda name: self._pods.by_index("node", name),
            job_of=self._job_of,
            catalog=lambda: self.prices.catalog,
            listeners=Listeners(pool=wake_pool, node=self._wake_on, market=self._wake_all),
            wall=wall,
        )
        self._node_book = Nodes(
            self._node, clock=clock, wall=wall, place=self.pools.place, said=self.pools.said
        )
        self.prices = Prices(self.pools.price_of, wall, catalog_of(None))
        self._tables = price_tables(client, price_table, self._use_prices)
        super().__init__(
            {
                "trainingjobs": self._jobs,
                "pods": self._pods,
                "nodes": self._nodes,
                **self.pools.reflectors,
                **self._tables,
            }
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        own: list[Reflector[Any]] = [self._jobs, self._pods, self._nodes, *self._tables.values()]
        runs = (reflector.run() for reflector in own)
        tasks = [asyncio.create_task(run) for run in runs]
        self._stack.push_async_callback(_end, tasks)
        await self._stack.enter_async_context(self.pools)
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

    def claim_of(self, key: Key) -> Key | None:
        """The claim that all workers of a job will have to mount; None if there is none."""
        job = self._jobs.get(*key)
        if job is None:
            return None
        spec, status = self._readings.spec(job).spec, self._readings.status(job).status
        if spec is None or spec.workers.max == 1 or spec.checkpoint is None:
            return None
        if status is None or holds_back(status):
            return None  # no workers, and no reason to ask
        volume = spec.checkpoint.volume
        claim = volume.persistent_volume_claim if volume is not None else None
        return Key(key.namespace, claim.claim_name) if claim is not None else None

    def snapshot(
        self,
        key: Key,
        memory: Memory,
        leading_since: float,
        *,
        volume_is_shared: bool | None = None,
    ) -> JobSnapshot | BrokenJob | None:
        """A job and all that belongs to it, as it is known now; None if there is no such job."""
        job = self._jobs.get(*key)
        if job is None:
            return None
        self._renamed(key, job.metadata.uid)
        seen = job_snapshot(
            job,
            self._pods.by_index("job", key),
            self._look_at,
            self.agents,
            readings=self._readings,
            memory=memory,
            now=self._wall(),
            now_seconds=self._clock(),
            leading_since=leading_since,
            volume_is_shared=volume_is_shared,
        )
        if isinstance(seen, BrokenJob):
            self._gangs.forget(key)
            return seen
        requests = self.pools.requests_of(seen)
        seen = replace(seen, market=self.pools.market_for(seen), requests=requests)
        return replace(seen, may_hold_nodes=self._gangs.may_hold_nodes(seen))

    async def survey(self) -> None:
        """Look at all jobs once, so that their order is known before the first is decided."""
        for key in self.all_keys():
            self.snapshot(key, Memory(), self._clock())
            await asyncio.sleep(0)  # thousands take a while

    def again_seconds(self, key: Key) -> float:
        """When a job has to be looked at again though nothing happens.

        A node may turn out to be gone, or the job's turn to hold nodes be over.
        """
        names = {pod.spec.node_name for pod in self._pods.by_index("job", key)}
        waits = (self._node_book.again_seconds(name) for name in names if name)
        return min(self._gangs.again_seconds(key), *waits, float("inf"))

    def orphans(self, key: Key) -> Iterator[Orphan]:
        """The pods of that name's former jobs that still wait for us."""
        job = self._jobs.get(*key)
        for pod in self._pods.by_index("job", key):
            meta = pod.metadata
            is_live = job is not None and meta.owner_uid == job.metadata.uid
            if FINALIZER_METERED in meta.finalizers and not is_live:
                yield Orphan(meta.name, meta.uid, meta.owner_uid)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._gangs.forget(key)
        self._renamed(key, None)

    def _look_at(self, node: str) -> Node:
        return self.prices.priced(self._node_book.look(node))

    def _renamed(self, key: Key, uid: str | None) -> None:
        """A job that was re-created under its name has nothing of its predecessor."""
        known = self._uids.get(key)
        if known is not None and known != uid:
            self.agents.forget(known)
            self._readings.forget(known)
            del self._uids[key]
        if uid is not None:
            self._uids[key] = uid

    def _job_changed(self, old: JobObject | None, new: JobObject | None) -> None:
        job = new or old
        assert job is not None, "a change has an old or a new side"
        self._wake(Key(job.metadata.namespace, job.metadata.name))

    def _pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        self.pools.pools.pod_changed(old, new)
        for pod in (old, new):
            if pod is not None:
                self._wake(_key_of(pod))

    def _node_changed(self, old: NodeObject | None, new: NodeObject | None) -> None:
        if old is not None and new is not None and _matters(old) == _matters(new):
            return
        node = new or old
        assert node is not None, "a change has an old or a new side"
        self.pools.pools.node_changed(old, new)
        self._wake_on(node.metadata.name)

    def _wake_on(self, node: str) -> None:
        for pod in self._pods.by_index("node", node):
            self._wake(_key_of(pod))

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
        read = self._readings.spec(job) if job is not None else None
        return (read.spec, read.template) if read is not None and read.spec is not None else None


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


async def _end(tasks: list[asyncio.Task[NoReturn]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
