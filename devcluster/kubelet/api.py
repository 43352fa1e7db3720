"""Writes of kubelets to the API server, with the retries of kubelets."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

import aiohttp

from devcluster.client import MERGE, METADATA_ONLY, STRATEGIC, ApiError, Client, at
from devcluster.kubelet.objects import LEASE_NAMESPACE, conditions, lease_object, micro_time
from devcluster.kubelet.runtime import Manifest
from devcluster.kubelet.status import status_patch

log = logging.getLogger(__name__)

# Fewer than the client's connections: very many pods must not delay the leases.
CONCURRENT_POD_WRITES = 48
RETRY_SECONDS_MAX = 5.0

LEASES = "coordination.k8s.io/v1"


class KubeletApi:
    """Writes statuses, deletions, nodes and leases; repeats writes that may succeed later."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.num_pod_writes = 0
        self._slots = asyncio.Semaphore(CONCURRENT_POD_WRITES)

    async def write_status(
        self, pod: Manifest, status: Manifest, reachable: asyncio.Event
    ) -> Manifest | None:
        """Write a pod's status and return its new metadata; None if the pod is gone."""
        meta = pod["metadata"]
        path = at("pods", meta["namespace"], meta["name"], "status")
        body = status_patch(pod, status)

        async def write() -> Manifest:
            return await self.client.patch(path, body, content_type=STRATEGIC, accept=METADATA_ONLY)

        return await self._persist(pod, write, reachable)

    async def confirm_deletion(self, pod: Manifest, reachable: asyncio.Event) -> None:
        """Delete a pod for good, once nothing of it is left on its node."""
        meta = pod["metadata"]
        path = at("pods", meta["namespace"], meta["name"])
        await self._persist(
            pod, lambda: self.client.delete(path, grace_seconds=0, uid=meta["uid"]), reachable
        )

    async def pods_of(self, node: str) -> list[Manifest]:
        """Read the pods that are bound to a node."""
        return await self.client.list(at("pods"), fieldSelector=f"spec.nodeName={node}")

    async def register(self, node: Manifest) -> Manifest:
        """Create a node, or take over an existing one."""
        try:
            return await self.client.create(at("nodes"), node)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        path = at("nodes", None, node["metadata"]["name"])
        known = {k: node[k] for k in ("metadata", "spec")}
        await self.client.patch(path, known, content_type=MERGE)
        return await self.client.patch(f"{path}/status", {"status": node["status"]})

    async def write_conditions(
        self, node: str, now: datetime, *, not_ready_because: str = ""
    ) -> None:
        """Write a node's conditions as its kubelet sees them."""
        body = {"status": {"conditions": conditions(now, not_ready_because=not_ready_because)}}
        path = at("nodes", None, node, "status")
        await self.client.patch(path, body, content_type=STRATEGIC)

    async def renew_lease(self, node: Manifest, duration_seconds: int, now: datetime) -> None:
        """Show that a node is alive."""
        name = node["metadata"]["name"]
        path = at("leases", LEASE_NAMESPACE, name, group=LEASES)
        try:
            renewed = {"spec": {"renewTime": micro_time(now)}}
            await self.client.patch(path, renewed, accept=METADATA_ONLY)
        except ApiError as error:
            if error.status != 404:
                raise
            lease = lease_object(node, duration_seconds, now)
            await self.client.create(at("leases", LEASE_NAMESPACE, group=LEASES), lease)

    async def _persist(
        self,
        pod: Manifest,
        write: Callable[[], Awaitable[Manifest]],
        reachable: asyncio.Event,
    ) -> Manifest | None:
        pause_seconds = 0.1
        while True:
            await reachable.wait()
            try:
                async with self._slots:
                    self.num_pod_writes += 1
                    return await write()
            except ApiError as error:
                if error.status == 404 or await self._is_successor(pod, error):
                    return None
                if not error.may_pass and error.status != 409:
                    name = pod["metadata"]["name"]
                    log.exception("the API server refused the kubelet's write about pod %s", name)
                    return None
            except (aiohttp.ClientError, TimeoutError) as error:
                log.debug("a write is repeated: %r", error)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(RETRY_SECONDS_MAX, pause_seconds * 2)

    async def _is_successor(self, pod: Manifest, error: ApiError) -> bool:
        """Whether the write failed because there is now another pod of the same name."""
        if error.status not in {409, 422}:  # a patch gets 422 because the UID is immutable
            return False
        meta = pod["metadata"]
        try:
            now = await self.client.get(at("pods", meta["namespace"], meta["name"]))
        except ApiError as missing:
            return missing.status == 404
        return bool(now["metadata"]["uid"] != meta["uid"])
