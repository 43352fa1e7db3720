"""The caches behind pools: CapacityPools, labels of namespaces, events of nodes and pods."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.spend_limit import COST_LABELS
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.tasks import running
from spotrun.kube.watch.reflector import Handler, Reflector
from spotrun.money.price_history import NodePrice
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import Catalog
from spotrun.money.shares import Resources
from spotrun.observe.kube_objects import (
    CAPACITY_POOLS,
    NAMESPACES,
    NamespaceObject,
    NodeObject,
    PodObject,
    PoolObject,
)
from spotrun.observe.nodes.facts import is_ready
from spotrun.observe.nodes.interruption_notices import EventTimes, has_notice
from spotrun.observe.nodes.node_events import NodeEvents
from spotrun.observe.pools.autoscaler_events import Autoscalers
from spotrun.observe.pools.fit import Demand, Demands, suits
from spotrun.observe.pools.market import Markets
from spotrun.observe.pools.objects import Pool, asked
from spotrun.observe.pools.pools import Pools
from spotrun.observe.pools.promised_capacity import Promises
from spotrun.observe.pools.snapshot import offerings_of, pool_snapshot
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.market import Market
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import FINISHED

JobOf = Callable[[PodObject], tuple[TrainingJobSpec, str] | None]
"""The spec of a worker's job, and the hash of its template; None for any other pod."""


@dataclass(frozen=True)
class Listeners:
    """The callbacks for each kind of change."""

    object: Handler[PoolObject]  # a pool's object has changed
    pool: Callable[[str], None]  # a pool's nodes changed, or the workers that ask for some
    node: Callable[[str], None]  # an event is about a node
    pod: Callable[[PodObject], None]  # what a worker waits for has changed
    market: Callable[[], None]  # people declared or labelled pools: all jobs may choose again


class PoolCaches:
    """The caches of pools, kept up to date in an `async with` block."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        nodes: Callable[[str], NodeObject | None],
        pods_on: Callable[[str], Iterable[PodObject]],
        job_of: JobOf,
        catalog: Callable[[], Catalog],
        listeners: Listeners,
        wall: Callable[[], datetime],
    ) -> None:
        self.objects: Reflector[PoolObject] = Reflector(
            client, Selection(CAPACITY_POOLS), PoolObject, self._pool_changed
        )
        only = f"metadata.name={namespace}" if namespace is not None else ""
        self._namespaces: Reflector[NamespaceObject] = Reflector(
            client, Selection(NAMESPACES, field_selector=only), NamespaceObject, lambda *_: None
        )
        self._node_events = NodeEvents(client, self._node_event, wall)
        self._autoscalers = Autoscalers(client, namespace, self._pod_event, wall)
        self._sees_all = namespace is None
        self._find = nodes
        self._listeners = listeners
        self._job_of = job_of
        self._demands = Demands()
        self.pools = Pools(
            pods_on=pods_on,
            events=self._node_events.about,
            changed=listeners.pool,
            wall=wall,
            is_worker=lambda pod: job_of(pod) is not None,
        )
        self.promises = Promises(self.pools.room, self.pools.room_changed)
        self._catalog = catalog
        self._markets = Markets(self.pools, catalog, wall)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(running(self.objects.run()))
        await self._stack.enter_async_context(running(self._namespaces.run()))
        await self._stack.enter_async_context(self._node_events)
        await self._stack.enter_async_context(self._autoscalers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def reflectors(self) -> dict[str, Reflector[Any]]:
        """The reflectors, by their names in the metric of caches' age."""
        interrupted, rebalanced = self._node_events.reflectors.values()
        return {
            "capacitypools": self.objects,
            "namespaces": self._namespaces,
            "interruptions": interrupted,
            "recommendations": rebalanced,
            **self._autoscalers.reflectors,
        }

    def pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        """Take note of a worker."""
        self.pools.pod_changed(old, new)
        self.promises.pod_changed(old, new)

    @property
    def known(self) -> list[Pool]:
        """All pools, including those that are not created yet."""
        found = (self.pools.get(name) for name in self.pools.names())
        return [pool for pool in found if pool is not None]

    def names(self) -> list[str]:
        """The names of all pools, including those that are not created yet."""
        return self.pools.names()

    def market_for(self, job: JobSnapshot) -> Market:
        """Return the pools that a job's workers may come from; a finished job asks for none."""
        if job.status.phase in FINISHED:
            return Market()
        return self.market_of(job.spec, job.template, job.namespace)

    def market_of(self, spec: TrainingJobSpec, template: str, namespace: str) -> Market:
        """Return the pools for workers of a spec, by the hash of its template."""
        found = self._namespaces.get("", namespace)
        labels = found.metadata.labels if found is not None else {}
        demand = self._demands.of(spec, template)
        return self._markets.market_for(spec.placement, demand, namespace, labels)

    def requests_of(self, spec: TrainingJobSpec, template: str) -> Resources:
        """Return the resources that one worker of a job requests, by its template."""
        return self._demands.of(spec, template).requests

    def lets_in(self, job: JobSnapshot, node: NodeObject) -> bool:
        """Whether a node, regardless of room, takes a job's workers: ready, staying, suitable."""
        place = self.pools.place(node)
        pool = self.pools.get(place[0]) if place is not None else None
        further = pool.spec.tolerations or () if pool is not None else ()
        demand = self._demands.of(job.spec, job.template)
        if not is_ready(node) or has_notice(node):
            return False
        return suits(demand, node.metadata.labels, node.spec.taints, further)

    def snapshot(self, name: str, written_seconds: float) -> PoolSnapshot | None:
        """A pool and the facts about it; None if there is neither an object nor a node."""
        pool = self.pools.get(name)
        if pool is None:
            return None
        return pool_snapshot(
            self.pools,
            pool,
            self._catalog(),
            self._demand_of,
            written_seconds,
            sees_all=self._sees_all,
            interruptions_per_hour=self._markets.interruptions_per_hour(name),
            is_turned_down=self._is_turned_down,
        )

    def turned_down(self, job: JobSnapshot) -> dict[int, str]:
        """Return the autoscalers' refusals to create nodes for workers, by worker id."""
        waiting = (worker.pod for worker in job.workers if worker.pod.unschedulable)
        refusal_of = self._autoscalers.refusal_of
        found = {pod.worker_id: refusal_of(job.namespace, pod.uid) for pod in waiting}
        return {worker_id: words for worker_id, words in found.items() if words}

    def events_of(self, node: NodeObject) -> EventTimes:
        """Return the announcements of a node's end in events."""
        return self._node_events.about(node)

    def place(self, node: NodeObject) -> tuple[str, Capacity] | None:
        """Return the pool of a node, and its capacity type there."""
        return self.pools.place(node)

    def offered(self) -> Iterator[Offering]:
        """Yield the offerings of all pools: the machines that a price may exist for."""
        found = (self.pools.get(name) for name in self.names())
        return (one for pool in found if pool is not None for one in offerings_of(pool))

    def has_namespace(self, name: str) -> bool:
        """Whether there is such a namespace."""
        return self._namespaces.get("", name) is not None

    def cost_labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace by which people group costs."""
        found = self._namespaces.get("", namespace)
        labels = found.metadata.labels if found is not None else {}
        return {key: labels[key] for key in COST_LABELS if key in labels}

    def price_of(self, pool: str) -> NodePrice | None:
        """Return the price of a pool's node."""
        return self.pools.price_of(pool)

    def _demand_of(self, pod: PodObject) -> Demand | None:
        job = self._job_of(pod)
        return self._demands.of(*job) if job is not None else None

    def _pool_changed(self, old: PoolObject | None, new: PoolObject | None) -> None:
        one = new or old
        assert one is not None, "a change has an old or a new side"
        name = one.metadata.name
        before = self._rests_until(name)
        is_marked = (
            old is not None and new is not None and old.metadata.labels != new.metadata.labels
        )
        is_declared_anew = self.pools.pool_changed(old, new)
        self._listeners.object(old, new)
        if is_declared_anew or is_marked:
            self._listeners.market()
        elif self._rests_until(name) != before:
            for pod in self.pools.waiting.values():
                if name in asked(pod):
                    self._listeners.pod(pod)

    def _rests_until(self, name: str) -> datetime | None:
        pool = self.pools.get(name)
        return pool.status.retry_at if pool is not None else None

    def _is_turned_down(self, pod: PodObject) -> bool:
        return bool(self._autoscalers.refusal_of(pod.metadata.namespace, pod.metadata.uid))

    def _pod_event(self, key: Key, uid: str) -> None:
        pod = self.pools.waiting.get(key)
        if pod is not None and pod.metadata.uid == uid:
            self.pools.touch_asked(pod)
            self._listeners.pod(pod)

    def _node_event(self, name: str) -> None:
        node = self._find(name)
        if node is not None:
            self.pools.look_again(node)
            self._listeners.node(name)
