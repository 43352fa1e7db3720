"""The operator's knowledge of the virtual market, learned by `policies.pool`.

With `Observe.MARKET` it also knows whether a pool has nodes available, as in published replays.
"""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from math import inf

from spotrun.api.capacitypool import CapacityPoolSpec
from spotrun.money.price_history import NodePrice, Quote
from spotrun.money.shares import Resources
from spotrun.money.units import UsdPerHour, decimal_of
from spotrun.policies.pool.interruptions import DAY
from spotrun.policies.pool.lifetimes import Life
from spotrun.policies.pool.policy import next_pool, wake_after_seconds
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.simulate.cluster import Cluster, Worker
from spotrun.simulate.market.virtual_market import Pool
from spotrun.simulate.outcome import Lease
from spotrun.simulate.scenario import Observe
from spotrun.state.market import Market, PoolFacts
from spotrun.state.stored.pools.pool_state import PoolNode, PoolState

NODE = Resources(cpu=Decimal(8), memory=Decimal(64 * 2**30), gpus=1)
"""The capacity of a node: room for one worker. Recordings contain no more about a node."""

_ITS_STATUS = PoolNode(NODE.cpu, NODE.memory, NODE.gpus)
_STALE_SECONDS = 1800.0
"""The odds are computed again at this interval: they change slowly as nodes become older."""


class Pools:
    """The pools as the operator sees them."""

    def __init__(self, cluster: Cluster) -> None:
        self._known = [_Known(pool, cluster) for pool in cluster.market.pools]

    def look(self) -> Market:
        """Return all pools as they are known now."""
        return Market(tuple(known.facts() for known in self._known))

    def next_event(self) -> float:
        """Return when the knowledge changes next without an event."""
        return min((known.again_at for known in self._known), default=inf)


class _Known:
    """One pool; its status is computed again only after something happened to it."""

    def __init__(self, pool: Pool, cluster: Cluster) -> None:
        self.again_at = 0.0
        self._pool, self._cluster = pool, cluster
        self._spec = CapacityPoolSpec(
            instance_types=(pool.trace.instance_type,),
            zones=(pool.trace.zone,),
            region=pool.trace.region,
            capacity=pool.capacity,
        )
        self._status = PoolState()
        self._seen: object = None
        self._facts: PoolFacts | None = None

    def facts(self) -> PoolFacts:
        cluster = self._cluster
        held = [worker for worker in cluster.held(self._pool) if worker.runs(cluster.now)]
        waiting = [worker for worker in cluster.workers.values() if self._is_asked_by(worker)]
        gone = cluster.leases_of[self._pool]
        uids = [[worker.uid for worker in workers] for workers in (held, waiting)]
        seen = (self._pool.offer(cluster.now), uids, len(gone))
        if self._facts is None or seen != self._seen or cluster.now >= self.again_at:
            self._seen = seen
            self._learn(held, waiting, gone)
            self._facts = self._conclude(len(held))
        return self._facts

    def _is_asked_by(self, worker: Worker) -> bool:
        """Whether a worker waits for a node and may use this pool."""
        is_over = worker.removed_at is not None or worker.runs(self._cluster.now)
        if is_over or (worker.node is not None and worker.node.gone_at < inf):
            return False
        place = worker.place
        if place.required:
            return self._pool.name in place.required
        return place.capacity in {None, self._pool.capacity}

    def _learn(self, held: list[Worker], waiting: list[Worker], gone: list[Lease]) -> None:
        cluster, at = self._cluster, self._cluster.market.time
        now, nodes = at(cluster.now), [worker.node for worker in held if worker.node is not None]
        recent = [lease for lease in gone if now - at(lease.end) < DAY]
        snapshot = PoolSnapshot(
            name=self._pool.name,
            uid=self._pool.name,
            version="1",
            spec=self._spec,
            status=self._status,
            lives=(
                *(Life(at(node.there_at)) for node in nodes),
                *(self._life(lease) for lease in recent),
            ),
            workers=len(held),
            node=_ITS_STATUS if nodes else None,
            quote=Quote(UsdPerHour(self._pool.offer(cluster.now).usd_per_hour), "recording"),
            on_demand=Quote(self._on_demand(), "recording"),
            provisioned=tuple(
                (at(node.there_at), node.there_at - node.granted_at) for node in nodes
            ),
            waiting=tuple(at(worker.created_at) for worker in waiting),
        )
        self._status = next_pool(snapshot, now)
        known = replace(snapshot, status=self._status)
        seconds = wake_after_seconds(known, self._status, now)
        self.again_at = cluster.now + min(seconds, _STALE_SECONDS)

    def _life(self, lease: Lease) -> Life:
        at = self._cluster.market.time
        there_at = min(lease.start + self._cluster.rules.provision_seconds, lease.end)
        return Life(at(there_at), at(lease.end), lease.was_taken)

    def _on_demand(self) -> UsdPerHour:
        """Return the price of the same node on demand."""
        key = (self._pool.trace.zone, self._pool.trace.instance_type)
        pools = self._cluster.market.on_demand
        same = next(p for p in pools if (p.trace.zone, p.trace.instance_type) == key)
        return UsdPerHour(same.offer(self._cluster.now).usd_per_hour)

    def _conclude(self, workers: int) -> PoolFacts:
        pool, status, trace = self._pool, self._status, self._pool.trace
        learned, price = status.provision_seconds, status.price or NodePrice()
        interruptions = status.interruptions
        available, retry_at = self._availability()
        return PoolFacts(
            name=pool.name,
            capacity=pool.capacity,
            zones=(trace.zone,),
            region=trace.region,
            instance_types=(trace.instance_type,),
            accelerator=trace.gpu,
            gpus=NODE.gpus,
            usd_per_hour=decimal_of(price.usd_per_hour),
            on_demand_usd_per_hour=decimal_of(price.on_demand_usd_per_hour),
            nodes=status.nodes,
            workers=workers,
            declared=True,
            match_labels={"pool": (pool.name,)},
            allocatable=NODE,
            available=available,
            retry_at=retry_at,
            provision_seconds=float(learned) if learned is not None else None,
            interruptions_24h=status.interruptions_24h,
            last_interruption_at=interruptions[-1].time if interruptions else None,
            node_hours_24h=self._node_hours(),
        )

    def _node_hours(self) -> float:
        """Return the node-hours of a day at risk of interruption, including taken nodes."""
        cluster, now = self._cluster, self._cluster.market.time(self._cluster.now)
        nodes = (worker.node for worker in cluster.held(self._pool))
        ages = (cluster.now - node.there_at for node in nodes if node is not None)
        present = sum(min(max(age, 0.0), DAY.total_seconds()) for age in ages) / 3600
        recent = (one for one in self._status.interruptions if now - one.time < DAY)
        return present + sum(float(one.node_hours) for one in recent)

    def _availability(self) -> tuple[bool | None, datetime | None]:
        """Return whether nodes are available, as learned or from the market, and when to retry."""
        cluster, status = self._cluster, self._status
        if cluster.rules.observe is Observe.MARKET:
            return self._pool.offer(cluster.now).nodes > len(cluster.held(self._pool)), None
        retry_at = status.retry_at
        is_resting = retry_at is not None and retry_at > cluster.market.time(cluster.now)
        return status.available, retry_at if is_resting else None
