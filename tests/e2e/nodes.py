"""Events that happen to a node, as the API server and people learn of them."""

import asyncio
from datetime import UTC, datetime, timedelta

from devcluster import notices
from devcluster.client import JSON_PATCH, ApiError, Manifest, at
from devcluster.notices import TERMINATION_FINALIZER, Dialect, Write
from tests.e2e.site import Site

BOOT_SECONDS = 180
_LEASES = at("leases", "kube-node-lease", group="coordination.k8s.io/v1")
_CONFLICTS_MAX = 20
"""Retries after conflicts with other writers of the node; more in a row mean a bug."""


async def notice(site: Site, node: str, dialect: Dialect) -> None:
    """Say in a platform's dialect that a node ends in two minutes."""
    now = datetime.now(UTC)
    done = 0
    for _ in range(_CONFLICTS_MAX):
        found = await site.kube.get(at("nodes", None, node))
        writes = notices.notice(dialect, found, now + timedelta(minutes=2), now)
        try:
            for write in writes[done:]:
                await _send(site, write)
                done += 1
        except ApiError as error:
            if error.status != 409:
                raise
        else:
            return
    raise AssertionError(f"others kept writing node {node}")


async def cut_power(site: Site, node: str) -> None:
    """Take the machine away without a word."""
    await asyncio.to_thread(site.kind.cut_power, node)


async def shut_down(site: Site, node: str) -> None:
    """Have a machine shut down, and wait until it is off."""
    await asyncio.to_thread(site.kind.shut_down, node)


async def boot(site: Site, node: str) -> None:
    """Give a machine its power again, and wait until its kubelet is heard."""
    since = datetime.now(UTC)
    await asyncio.to_thread(site.kind.give_power, node)
    await until_heard(site, node, since)
    site.kind.tame()


async def replace(site: Site, node: str) -> None:
    """A machine that was taken away is forgotten, and another one of its name joins."""
    path = at("nodes", None, node)
    found = (await site.kube.list(at("nodes"), fieldSelector=f"metadata.name={node}"))[0]
    if TERMINATION_FINALIZER in found["metadata"].get("finalizers", ()):
        await site.kube.patch(path, {"metadata": {"finalizers": None}})  # already deleted
    else:
        await site.kube.delete(path, uid=found["metadata"]["uid"])
    await boot(site, node)


async def until_heard(site: Site, node: str, since: datetime) -> None:
    """Wait until a kubelet has renewed its Lease and is ready.

    A lost node looks ready for 40 s more, so only a new Lease counts.
    """

    def is_renewed(lease: Manifest | None) -> bool:
        renewed_at = (lease or {}).get("spec", {}).get("renewTime")
        return renewed_at is not None and datetime.fromisoformat(renewed_at) > since

    def is_ready(found: Manifest | None) -> bool:
        conditions = (found or {}).get("status", {}).get("conditions", ())
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    await site.kube.until(_LEASES, node, is_renewed, timeout_seconds=BOOT_SECONDS)
    await site.kube.until(at("nodes"), node, is_ready, timeout_seconds=BOOT_SECONDS)


async def _send(site: Site, write: Write) -> None:
    await site.kube.request(
        write.method, write.path, body=write.body, content_type=write.content_type
    )


async def advertise(site: Site, node: str, resource: str, number: int) -> None:
    """Have a node offer devices that it has not: as a device plugin would, for placement only."""
    where = f"/status/capacity/{resource.replace('/', '~1')}"
    patch = [{"op": "add", "path": where, "value": str(number)}]
    await site.kube.patch(at("nodes", None, node, "status"), patch, content_type=JSON_PATCH)
