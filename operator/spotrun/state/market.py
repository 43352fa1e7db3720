"""The market as a decision about one job sees it: the pools that its workers may come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from spotrun.api.capacitypool import Capacity, Toleration
from spotrun.money.shares import Resources
from spotrun.state.queue import Queue


@dataclass(frozen=True)
class PoolFacts:
    """One pool: what it is, what it costs, and what was learned about it."""

    name: str
    capacity: Capacity = Capacity.ON_DEMAND
    zones: tuple[str, ...] = ()
    region: str = ""
    instance_types: tuple[str, ...] = ()
    accelerator: str = ""  # the GPU's model, as labels or the instance type say; "": none
    gpus: int = 0  # of one node
    usd_per_hour: Decimal | None = None  # of one node; None: unknown
    on_demand_usd_per_hour: Decimal | None = None  # of the same node on demand
    nodes: int = 0
    workers: int = 0  # of all jobs
    max_workers: int | None = None  # of all jobs; None: no limit
    declared: bool = False  # by an admin: it may be asked for though it has no node
    # Labels of nodes -> allowed values: by these a pod's affinity asks for this pool.
    match_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()  # besides the known ones of spot and GPU nodes
    namespaces_allowed: bool = True  # whether jobs of this job's namespace may use it
    allocatable: Resources | None = None  # of one node; None: no node was seen yet
    free_slots: int = 0  # so many more workers of this job fit on nodes that are there and stay
    is_promised: bool = False  # whether workers that nobody has tried yet were told of its room
    available: bool | None = None  # None: unknown
    retry_at: datetime | None = None  # it was dry when asked: until then it is not asked again
    provision_seconds: float | None = None  # p95 of how long a new node took
    interruptions_24h: int = 0
    last_interruption_at: datetime | None = None
    node_hours_24h: float = 0.0  # how long its nodes were there to be taken away


@dataclass(frozen=True)
class Market:
    """The pools of this job's namespace and poolSelector; none in a cluster that knows no pool."""

    pools: tuple[PoolFacts, ...] = ()
    strays: tuple[Resources, ...] = ()  # what nodes have that are in no pool, each kind once

    def within(self, queue: Queue | None) -> "Market":
        """Return the market without pools whose nodes are none that the queue has chosen."""
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
