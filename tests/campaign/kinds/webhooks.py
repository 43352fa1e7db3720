"""Faults by admission webhooks of others, which the API server asks before it makes a pod."""

import asyncio

from devcluster.client import Manifest
from tests.campaign.ground import Ground
from tests.campaign.kinds.kind import Kind
from tests.campaign.plan import Fault
from tests.support.cluster.webhooks import Patch, denying, mutating

_WHILE_SECONDS = 2.0
_SIDECAR = {"name": "mesh", "image": "y"}


async def _injected(ground: Ground, _: Fault) -> None:
    """Pods are made with another container before ours, a label, and without one of ours."""
    async with mutating(ground.world, _with_sidecar):
        await asyncio.sleep(_WHILE_SECONDS)


async def _denied(ground: Ground, _: Fault) -> None:
    """No pod is made for a while: a policy engine refuses all of them."""
    async with denying(ground.world, "no pods on Fridays"):
        await asyncio.sleep(_WHILE_SECONDS)


def _with_sidecar(pod: Manifest) -> Patch:
    patch: Patch = [{"op": "add", "path": "/spec/containers/0", "value": _SIDECAR}]
    if "labels" in pod["metadata"]:
        patch.append({"op": "add", "path": "/metadata/labels/example.com~1mesh", "value": "on"})
    return patch


KINDS: dict[str, Kind] = {
    "pods_injected": Kind(_injected),
    "pods_denied": Kind(_denied, is_exact=True),
}
