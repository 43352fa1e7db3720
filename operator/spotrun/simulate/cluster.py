"""The virtual cluster of one job: pods get nodes, workers start, the platform takes nodes away.

Times are seconds since the replay began. Each worker has a node for itself, which is paid from the
second it is granted until its worker has ended. Later use of the node is not this job's cost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import assert_never

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.simulate.market.virtual_market import Pool, VirtualMarket
from spotrun.simulate.outcome import Lease
from spotrun.simulate.scenario import Rules
from spotrun.state.actions import (
    AcceptEviction,
    Action,
    AdoptRequest,
    Annotate,
    AskQueue,
    BoostRequest,
    Create,
    DeleteJob,
    FinishRequest,
    KeepReport,
    LeaveQueue,
    Placed,
    PriceWorker,
    Release,
    Remove,
    Resize,
    ReturnQuota,
    TellReady,
    Withdraw,
)

_KINDS = {
    CapacityPolicy.SPOT: frozenset({Capacity.SPOT}),
    CapacityPolicy.ON_DEMAND: frozenset(Capacity) - {Capacity.SPOT},
    CapacityPolicy.MIXED: frozenset(Capacity),
}
"""The capacity types that a worker may use, if only the placement of its job restricts them."""


@dataclass
class Node:
    """A node of this job."""

    name: str
    pool: Pool
    granted_at: float
    there_at: float  # when it joins the cluster, so that pods are bound to it
    gone_at: float = inf


@dataclass
class Worker:
    """A worker's pod and process, in their actual state."""

    worker_id: int
    uid: str
    created_at: float
    place: Placed
    node: Node | None = None
    ready_at: float = inf
    removed_at: float | None = None
    metered: bool = True
    port: int = 0  # the port of its spare store
    slot: int = 0  # the part of a copy of the model that it holds
    replica: int | None = None  # the replica near whose workers it was placed
    arrived: int = 0  # the world it is in
    arrived_at: float | None = None
    state: float | None = None  # the steps in its state of the training; None: it has no state
    state_world: int = 0
    ordered: int = 0  # the last order that it followed

    def runs(self, now: float) -> bool:
        """Whether its containers can run."""
        node = self.node
        return self.removed_at is None and node is not None and node.there_at <= now < node.gone_at

    def is_ready(self, now: float) -> bool:
        """Whether it can enter a world."""
        return self.runs(now) and self.ready_at <= now


class Cluster:
    """Pods and nodes."""

    def __init__(
        self, market: VirtualMarket, rules: Rules, policy: CapacityPolicy = CapacityPolicy.MIXED
    ) -> None:
        self.market, self.rules = market, rules
        self._policy = policy
        self.now = 0.0
        self.workers: dict[int, Worker] = {}
        self.leases: list[Lease] = []
        self.leases_of: dict[Pool, list[Lease]] = {pool: [] for pool in market.pools}
        self._made = 0

    def serve(self) -> None:
        """Take away the nodes that pools no longer have, and grant the nodes that they have."""
        for pool in self.market.spot:
            held = self.held(pool)
            too_many = len(held) - pool.offer(self.now).nodes
            # The worker that has its node for longest loses most: the most pessimistic order.
            for worker in sorted(held, key=_oldest_first)[: max(too_many, 0)]:
                self._take(worker)
        for worker in self.waiting():
            self._grant(worker)

    def held(self, pool: Pool) -> list[Worker]:
        """Return the workers that have a node of a pool."""
        return [
            worker
            for worker in self.workers.values()
            if worker.removed_at is None
            and worker.node is not None
            and worker.node.pool is pool
            and worker.node.gone_at == inf
        ]

    def waiting(self) -> list[Worker]:
        """Return the workers without a node."""
        return [w for w in self.workers.values() if w.node is None and w.removed_at is None]

    def next_event(self) -> float:
        """Return the time of the next event that needs no decision."""
        moments = [pool.next_change(self.now) for pool in self.market.pools]
        for worker in self.workers.values():
            if worker.node is not None and worker.removed_at is None:
                moments += [worker.node.there_at, worker.ready_at]
        return min((moment for moment in moments if moment > self.now), default=inf)

    def do(self, action: Action) -> None:
        """Carry out the operator's actions."""
        match action:
            case Create():
                self._create(action)
            case Remove(worker_id=worker_id, uid=uid):
                worker = self.workers.get(worker_id)
                if worker is not None and worker.uid == uid:
                    self._end(worker)
            case Withdraw(worker_id=worker_id, uid=uid):
                worker = self.workers.get(worker_id)
                if worker is not None and worker.uid == uid and not worker.runs(self.now):
                    self._end(worker)
                    del self.workers[worker_id]
            case Release(worker_id=worker_id, uid=uid):
                worker = self.workers.get(worker_id)
                if worker is not None and worker.uid == uid:
                    self._end(worker)
                    del self.workers[worker_id]
            case PriceWorker() | Annotate() | KeepReport() | DeleteJob() | Resize():
                pass  # it concerns only the job, whose size is given
            case (
                AskQueue()
                | AdoptRequest()
                | BoostRequest()
                | ReturnQuota()
                | LeaveQueue()
                | AcceptEviction()
                | FinishRequest()
                | TellReady()
            ):
                pass  # no simulated job names a queue
            case _:
                assert_never(action)

    def close(self) -> list[Lease]:
        """Give all nodes back at the end, and return all leases."""
        for worker in self.workers.values():
            self._end(worker)
        return self.leases

    def _create(self, create: Create) -> None:
        if create.worker_id in self.workers:
            return
        self._made += 1
        self.workers[create.worker_id] = Worker(
            create.worker_id,
            f"uid-{self._made}",
            self.now,
            create.place,
            port=20_000,
            slot=create.slot,
            replica=create.replica,
        )

    def _grant(self, worker: Worker) -> None:
        """Grant a node as an autoscaler would: of the best pools, the cheapest that has one."""
        weights = dict(worker.place.preferred)
        open_pools = [pool for pool in self._acceptable(worker.place) if self._has_one(pool)]
        if not open_pools:
            return
        pool = min(
            open_pools,
            key=lambda one: (-weights.get(one.name, 0), one.offer(self.now).usd_per_hour),
        )
        there_at = self.now + self.rules.provision_seconds
        worker.node = Node(f"node-{worker.uid}", pool, self.now, there_at)
        worker.ready_at = self.now + self.rules.changeover_seconds

    def _acceptable(self, place: Placed) -> Iterable[Pool]:
        named = [self.market.by_name[name] for name in place.required]
        if not named:
            kinds = {place.capacity} if place.capacity is not None else _KINDS[self._policy]
            named = [pool for pool in self.market.pools if pool.capacity in kinds]
        return (pool for pool in named if place.zone in {"", pool.trace.zone})

    def _has_one(self, pool: Pool) -> bool:
        nodes = pool.offer(self.now).nodes
        return nodes > 0 and len(self.held(pool)) < nodes

    def _take(self, worker: Worker) -> None:
        node = worker.node
        assert node is not None, "it has one"
        self._pay(node, was_taken=True)
        if node.there_at > self.now:  # it never joined, and its pod continues to wait
            worker.node, worker.ready_at = None, inf
        else:
            node.gone_at = self.now

    def _end(self, worker: Worker) -> None:
        node = worker.node
        if worker.removed_at is None and node is not None and node.gone_at == inf:
            self._pay(node, was_taken=False)
        if worker.removed_at is None:
            worker.removed_at = self.now

    def _pay(self, node: Node, *, was_taken: bool) -> None:
        lease = Lease(node.pool, node.granted_at, self.now, was_taken=was_taken)
        self.leases.append(lease)
        self.leases_of[node.pool].append(lease)


def _oldest_first(worker: Worker) -> tuple[float, int]:
    assert worker.node is not None, "it has one"
    return worker.node.granted_at, worker.worker_id
