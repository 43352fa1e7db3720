"""The market as a decision about one job sees it: the pools for its workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from spotrun.api.capacitypool import Capacity, Toleration
from spotrun.money.shares import Resources
from spotrun.state.queue import Queue


@dataclass(frozen=True)
class PoolFacts:
    """One pool: its properties, its cost, and what was learned about it."""

    name: str
    capacity: Capacity = Capacity.ON_DEMAND
    zones: tuple[str, ...] = ()
    region: str = ""
    instance_types: tuple[str, ...] = ()
    accelerator: str = ""  # the GPU's model, from labels or the instance type; "": none
    gpus: int = 0  # of one node
    usd_per_hour: Decimal | None = None  # of one node; None: unknown
    on_demand_usd_per_hour: Decimal | None = None  # of the same node on demand
    nodes: int = 0
    workers: int = 0  # of all jobs
    max_workers: int | None = None  # of all jobs; None: no limit
    declared: bool = False  # by an admin: it may be requested although it has no node
    # Labels of nodes -> allowed values: with these a pod's affinity selects this pool.
    match_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()  # besides the known ones of spot and GPU nodes
    namespaces_allowed: bool = True  # whether jobs of this job's namespace may use it
    allocatable: Resources | None = None  # of one node; None: no node was seen yet
    free_slots: int = 0  # more workers of this job that fit on existing nodes that stay
    is_promised: bool = False  # whether workers that the scheduler has not tried have its room
    available: bool | None = None  # None: unknown
    retry_at: datetime | None = None  # it is dry, and not asked again until then
    provision_seconds: float | None = None  # p95 of the time until a new node came
    interruptions_24h: int = 0
    last_interruption_at: datetime | None = None
    node_hours_24h: float = 0.0  # the time at risk of its nodes


@dataclass(frozen=True)
class Market:
    """The pools of this job's namespace and poolSelector; none in a cluster without pools."""

    pools: tuple[PoolFacts, ...] = ()
    strays: tuple[Resources, ...] = ()  # resources of nodes in no pool, each kind once

    def within(self, queue: Queue | None) -> "Market":
        """Return the market with only the pools whose nodes the queue has chosen."""
        labels = queue.flavor.node_labels if queue is not None else {}
        if not labels:
            return self
        fits = [
            all(value in pool.match_labels.get(key, (value,)) for key, value in labels.items())
            for pool in self.pools
        ]
        chosen = (pool for pool, does in zip(self.pools, fits, strict=True) if does)
        return replace(self, pools=tuple(chosen))

    def pool(self, name: str) -> PoolFacts | None:
        """The pool of that name."""
        return next((pool for pool in self.pools if pool.name == name), None)
