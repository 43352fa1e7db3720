"""A CapacityPool for the screens: only the fields that they read are decoded."""

import msgspec

from spotrun.cli.jobs.model import ObjectMeta, Part


class Toleration(Part, frozen=True):
    """A taint of the pool's nodes."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class PoolSpec(Part, frozen=True):
    """The nodes of a pool."""

    capacity: str = ""
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    usd_per_hour: str | None = None
    own_nodes: dict[str, str] | None = None
    max_workers: int | None = None


class Price(Part, frozen=True):
    """The price of a node."""

    usd_per_hour: str | None = None
    on_demand_usd_per_hour: str | None = None
    source: str | None = None
    as_of: str | None = None
    stale: bool = False


class PoolNode(Part, frozen=True):
    """A node of the pool."""

    gpus: int = 0
    accelerator: str | None = None


class PoolStatus(Part, frozen=True):
    """The facts that are known of a pool."""

    types: str | None = None
    zones: str | None = None
    nodes: int = 0
    workers: int | None = None
    price: Price = Price()
    node: PoolNode | None = None
    available: str = "Unknown"
    unpriced: str | None = None
    interruptions_24h: int = msgspec.field(default=0, name="interruptions24h")
    interruptions_per_hour: str | None = None
    lifetimes: str = ""


class Pool(msgspec.Struct, frozen=True):
    """A CapacityPool."""

    metadata: ObjectMeta
    spec: PoolSpec = PoolSpec()
    status: PoolStatus = PoolStatus()
