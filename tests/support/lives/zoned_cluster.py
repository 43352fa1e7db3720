"""The same small cluster with pools in two zones: who is where, and which replicas come apart."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from typing_extensions import override

from spotrun.api.capacitypool import Capacity
from spotrun.money.shares import Resources
from spotrun.state.market import Market, PoolFacts
from spotrun.state.replicas import replicas_of
from spotrun.state.sizes import wanted
from spotrun.state.snapshot import JobSnapshot, Node
from tests.support.lives.simulated_cluster import Cluster, SimPod
from tests.support.money.pool_builders import a_spot_pool, an_on_demand_pool

ZONES = ("a", "b")
POOLS = {
    pool.name: pool
    for zone, usd in zip(ZONES, (0.4, 0.3), strict=True)
    for pool in (
        a_spot_pool(f"spot-{zone}", usd, zone=zone),
        an_on_demand_pool(f"od-{zone}", zone=zone),
    )
}


@dataclass
class ZonedCluster(Cluster):
    """A job in a cluster whose zones run out of spot nodes."""

    full: set[str] = field(default_factory=set)
    has_lost: bool = False  # something, since all replicas were whole
    has_lacked: bool = False  # capacity, since then
    moves: int = 0

    @override
    def snapshot(self) -> JobSnapshot:
        pools = tuple(map(self._pool, POOLS.values()))
        return replace(super().snapshot(), market=Market(pools), requests=Resources(gpus=1))

    def _pool(self, pool: PoolFacts) -> PoolFacts:
        is_dry = pool.capacity is Capacity.SPOT and pool.zones[0] in self.full
        retry_at = self.now + timedelta(minutes=10)
        return replace(pool, available=False, retry_at=retry_at) if is_dry else pool

    @override
    def _node_for(self, pod: SimPod) -> Node | None:
        """Return a node as the scheduler finds it: near others of the replica where it can be."""
        names = pod.place.required or tuple(POOLS)
        pools = [POOLS[name] for name in names if not self._is_full(POOLS[name])]
        near = pod.place.near
        homes = {near.value} if near is not None else self._homes(pod)
        inside = [pool for pool in pools if pool.zones[0] in homes]
        if near is not None and near.is_required:
            pools = inside
        chosen = next(iter(inside or pools), None)
        if chosen is None or not self.has_capacity:
            return None
        return Node(
            f"node-{pod.uid}",
            capacity=chosen.capacity,
            zone=chosen.zones[0],
            pool=chosen.name,
            region=chosen.region,
            created_at=self.now,
        )

    def _is_full(self, pool: PoolFacts) -> bool:
        return pool.capacity is Capacity.SPOT and pool.zones[0] in self.full

    def _homes(self, pod: SimPod) -> set[str]:
        mates = [one for one in self.pods.values() if one.replica == pod.replica and one.runs]
        return {self.nodes[one.node].zone for one in mates if one.node is not None}

    @override
    def _form(self, world_number: int, members: Sequence[SimPod]) -> None:
        super()._form(world_number, members)
        self.has_lacked |= bool(self.full) or not self.has_capacity
        by_id = {worker.worker_id: worker for worker in self.snapshot().workers}
        workers = [by_id[pod.worker_id] for pod in members]
        apart = False
        for replica in replicas_of(workers, self.spec.workers):
            if len({worker.node.zone for worker in replica if worker.node is not None}) < 2:
                continue
            apart = True
            if len({worker.pod.replica for worker in replica}) == 1:
                assert self.has_lacked, "those who were made as one replica are in one zone"
            assert self.has_lost or self.has_lacked, "a move takes no replica apart"
        if not apart and len(members) == wanted(self.spec.workers):
            self.has_lost = self.has_lacked = False
