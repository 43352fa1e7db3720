"""The only writer of CapacityPools: it creates discovered ones and stores what was learned.

Only the leader writes, and makes one call at a time for a pool. A write carries the version that it
was decided on; after a conflicting change, which the watch brings, the operator decides again.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from spotrun.act.errors import SOON_SECONDS
from spotrun.act.manifests.plain_json import Manifest, plain
from spotrun.act.writes import Writes, Written, status_patch
from spotrun.api import names
from spotrun.api.capacitypool import CapacityPoolSpec
from spotrun.api.names import INSTANCE_TYPE_LABELS, REGION_LABELS, ZONE_LABELS
from spotrun.kube.errors import AlreadyExists, Conflict, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.caches import Caches
from spotrun.observe.kube_objects import CAPACITY_POOLS
from spotrun.policies.pool.policy import (
    is_forgotten,
    next_pool,
    seconds_to_write,
    wake_after_seconds,
)
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_codec import write
from spotrun.state.stored.pools.pool_state import PoolState

log = logging.getLogger(__name__)

SEEN_SECONDS = 1.0
"""The time until the change of another writer comes through the watch."""
UNREADABLE_SECONDS = 60.0
"""The pause for a pool that exists but cannot be read: a person must fix it."""


class PoolWriter:
    """Decides the status of a pool, and writes it."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        horizon: Horizon[Key, Resource],
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        is_sure: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._caches = caches
        self._horizon = horizon
        self._writes = Writes(horizon, leads)
        self._clock = clock
        self._wall = wall
        self._is_sure = is_sure
        self._written_at: dict[str, float] = {}

    async def keep(self, name: str) -> float | None:
        """Bring one pool up to date; returns when to look again. Raises KubeError."""
        if not self._horizon.caught_up(Key("", name)):
            for resource in self._horizon.overdue(Key("", name)):
                self._caches.relist(resource)
            return max(SOON_SECONDS, self._horizon.waited_seconds(Key("", name)) / 4)
        written_seconds = self._clock() - self._written_at.get(name, float("-inf"))
        pool = self._caches.pools.snapshot(name, written_seconds)
        if pool is None:
            self._written_at.pop(name, None)
            return None
        try:
            again = await self._bring_up_to_date(pool, self._wall())
        except (Conflict, NotFound) as error:
            log.debug(
                "capacitypool %s has changed meanwhile, so it is decided again: %s", name, error
            )
            return SEEN_SECONDS
        except AlreadyExists:
            return UNREADABLE_SECONDS  # or it was just created, and its event comes soon
        return again if again < float("inf") else None

    async def _bring_up_to_date(self, pool: PoolSnapshot, now: datetime) -> float:
        if not pool.uid:
            await self._create(pool)
            return float("inf")  # the event of its creation calls this again
        if is_forgotten(pool, now) and self._is_sure():
            await self._delete(pool)
            return float("inf")
        status = next_pool(pool, now)
        again = wake_after_seconds(pool, status, now)
        if status == pool.status:
            return again
        wait_seconds = seconds_to_write(pool, status)
        if wait_seconds > 0:
            return min(wait_seconds, again)
        await self._store(pool, status)
        return again

    async def _create(self, pool: PoolSnapshot) -> None:
        body = discovered_pool(pool.name, pool.spec)
        made = await self._writes.do(
            "create_pool", "", lambda: self._client.create(CAPACITY_POOLS, body, Written)
        )
        log.info("created the discovered capacitypool %s", pool.name)
        self._reached(pool, made.metadata.version)

    async def _store(self, pool: PoolSnapshot, status: PoolState) -> None:
        patch = status_patch(pool.version, write(status))
        written = await self._writes.do(
            "pool_status",
            "",
            lambda: self._client.patch(
                CAPACITY_POOLS, pool.name, patch, Written, subresource="status"
            ),
        )
        self._written_at[pool.name] = self._clock()
        self._reached(pool, written.metadata.version)

    async def _delete(self, pool: PoolSnapshot) -> None:
        await self._writes.do(
            "delete_pool",
            "",
            lambda: self._client.delete(
                CAPACITY_POOLS, pool.name, uid=pool.uid, version=pool.version
            ),
        )
        log.info("deleted capacitypool %s: it had no node for a week", pool.name)

    def _reached(self, pool: PoolSnapshot, version: int) -> None:
        self._writes.reached(Key("", pool.name), CAPACITY_POOLS, pool.name, version)


def discovered_pool(name: str, spec: CapacityPoolSpec) -> Manifest:
    """Return the manifest of a discovered pool; placement.poolSelector may match its labels."""
    known = {
        INSTANCE_TYPE_LABELS[0]: (spec.instance_types or ("",))[0],
        ZONE_LABELS[0]: (spec.zones or ("",))[0],
        REGION_LABELS[0]: spec.region,
    }
    return plain(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.CAPACITY_POOL,
            "metadata": {
                "name": name,
                "labels": {
                    names.LABEL_MANAGED_BY: names.MANAGED_BY,
                    names.LABEL_CAPACITY: spec.capacity.value,
                    **{label: value for label, value in known.items() if value},
                },
            },
            "spec": spec.manifest(),
        }
    )
