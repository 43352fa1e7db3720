"""CapacityPools as they are stored, and the nodes and workers in them. Pure."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from spotrun.api.capacitypool import CapacityPoolSpec, CapacityPoolStatus
from spotrun.api.names import LABEL_MANAGED_BY, MANAGED_BY
from spotrun.money.shares import Resources
from spotrun.observe.kube_objects import NodeObject, PodObject, PoolObject
from spotrun.observe.nodes.cloud_labels import Identity
from spotrun.policies.pool.lifetimes import Life
from spotrun.state.stored.pools.pool_codec import read
from spotrun.state.stored.pools.pool_state import PoolState

log = logging.getLogger(__name__)

_OVER = frozenset({"Succeeded", "Failed"})
_MOST_ASKED = 65_536
"""Characters of pools' names: room for a thousand. A user who may annotate pods can write more."""


@dataclass(frozen=True)
class Pool:
    """A pool as its object has it, or as it will be created."""

    name: str
    spec: CapacityPoolSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    status: PoolState = field(default_factory=PoolState)
    uid: str = ""  # "": it is not created yet
    version: str = ""
    is_ours: bool = True  # discovered, and not changed by others since

    @property
    def declared(self) -> CapacityPoolSpec | None:
        """The spec that people wrote; None if the pool was discovered."""
        return None if self.is_ours else self.spec

    def is_of(self, identity: Identity) -> bool:
        """Whether a discovered pool is the one for such nodes: two pools may have the same name."""
        zones = (identity.zone,) if identity.zone else None
        mine = (self.spec.instance_types, self.spec.zones, self.spec.capacity)
        return self.is_ours and mine == ((identity.instance_type,), zones, identity.capacity)


@dataclass
class Member:
    """A node as a member of its pool."""

    node: NodeObject
    pool: str | None
    born_at: datetime
    has: Resources  # allocatable, read once: a pool is computed from all of its nodes
    reclaimed_at: datetime | None = None
    workers: int = 0


@dataclass
class News:
    """The events in a pool."""

    lives: list[Life] = field(default_factory=list)
    provisioned: list[tuple[datetime, float]] = field(default_factory=list)


def read_pool(pool: PoolObject) -> Pool | None:
    """Read a pool from its object; None for one that the API server should have refused."""
    meta = pool.metadata
    try:
        spec = CapacityPoolSpec.model_validate_json(bytes(pool.spec), by_alias=True, by_name=False)
    except ValidationError as error:
        log.warning("capacitypool %s cannot be read, so it is ignored: %s", meta.name, error)
        return None
    try:
        stored = CapacityPoolStatus.model_validate_json(
            bytes(pool.status), by_alias=True, by_name=False
        )
        status = read(stored)
    except ValidationError as error:
        log.warning(
            "the status of capacitypool %s cannot be read, so what the operator learned is lost: "
            "%s",
            meta.name,
            error,
        )
        status = PoolState()
    is_ours = meta.labels.get(LABEL_MANAGED_BY) == MANAGED_BY and meta.generation == 1
    return Pool(meta.name, spec, meta.labels, status, meta.uid, meta.resource_version, is_ours)


def is_over(pod: PodObject) -> bool:
    """Whether all its containers have ended."""
    return pod.status.phase in _OVER


def asked(pod: PodObject) -> tuple[str, ...]:
    """Return the pools from which a worker was requested; none: any node will do."""
    written = pod.metadata.annotations.pools[:_MOST_ASKED]
    return tuple(name for name in written.split(",") if name)


def is_unschedulable(pod: PodObject) -> bool:
    """Whether the scheduler found no node for it."""
    return any(
        one.type == "PodScheduled" and one.status == "False" and one.reason == "Unschedulable"
        for one in pod.status.conditions
    )
