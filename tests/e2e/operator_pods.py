"""The operator's pods: who leads, and what becomes of the others when it is killed."""

import asyncio

from devcluster.client import Client, Manifest, at
from tests.e2e.cluster import Cluster
from tests.e2e.installation import SYSTEM
from tests.e2e.kind.machine import SetupError

_LEASES = at("leases", SYSTEM, group="coordination.k8s.io/v1")
_LEASE = "spotrun"
_PATIENCE_SECONDS = 120


async def leader(kube: Client) -> Manifest:
    """The pod whose address is in the Lease."""
    lease = await kube.get(f"{_LEASES}/{_LEASE}")
    address = lease["spec"]["holderIdentity"].partition(":")[0]
    pods = await kube.list(at("pods", SYSTEM))
    (found,) = (pod for pod in pods if pod["status"].get("podIP") == address)
    return found


async def kill_leader(cluster: Cluster, kube: Client) -> None:
    """Kill the operator that leads, and wait until there is another leader and a whole set."""
    first = await leader(kube)
    name, address = first["metadata"]["name"], first["status"]["podIP"]
    await _kubectl(cluster, "delete", "pod", name, "--grace-period=0", "--force")

    def is_another(lease: Manifest | None) -> bool:
        held = (lease or {}).get("spec", {}).get("holderIdentity", "")
        return bool(held) and not held.startswith(f"{address}:")

    await kube.until(_LEASES, _LEASE, is_another, timeout_seconds=_PATIENCE_SECONDS)
    await _kubectl(cluster, "rollout", "status", "deployment/spotrun", "--timeout=120s")


async def show_operator(cluster: Cluster, kube: Client) -> None:
    """Print the last that the operator's pods have logged."""
    for pod in await kube.list(at("pods", SYSTEM)):
        name = pod["metadata"]["name"]
        try:
            said = await _kubectl(cluster, "logs", name, "--tail=150")
        except SetupError as error:
            said = str(error)
        print(f"--- {name}\n{said}")


async def _kubectl(cluster: Cluster, *arguments: str) -> str:
    return await asyncio.to_thread(cluster.kubectl, f"--namespace={SYSTEM}", *arguments)
