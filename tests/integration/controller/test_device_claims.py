"""Jobs whose workers are given their GPUs by claims (dynamic resource allocation)."""

import pytest

from devcluster.client import ApiError, Manifest, at
from tests.support.cluster.operator_world import World

GROUP = "resource.k8s.io/v1"
GPU = "gpu.example.com"
ROOM = {"cpu": "64", "memory": "64Gi"}
PRICE = {"spotrun.dev/usd-per-hour": "8"}
CLAIM = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU, "count": 2}}]}
}


async def create_claiming(world: World, name: str = "job") -> None:
    trainer = {
        "name": "trainer",
        "image": "x",
        "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpus"}]},
    }
    claims = [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]
    template = {"spec": {"containers": [trainer], "resourceClaims": claims}}
    await world.create_job(name, workers={"min": 1, "max": 1, "replicas": 1, "template": template})


async def add_machine(world: World, gpus: int) -> None:
    """A node whose driver says that it has GPUs."""
    await world.nodes.add("a", capacity=ROOM, annotations=PRICE)
    devices = [{"name": f"gpu-{number}"} for number in range(gpus)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    slices: Manifest = {"driver": GPU, "nodeName": "a", "pool": pool, "devices": devices}
    selector = {"cel": {"expression": f"device.driver == '{GPU}'"}}
    for plural, spec in (("deviceclasses", {"selectors": [selector]}), ("resourceslices", slices)):
        name = GPU if plural == "deviceclasses" else "a"
        await world.kube.create(at(plural, group=GROUP), {"metadata": {"name": name}, "spec": spec})


async def is_served(world: World) -> bool:
    try:
        await world.kube.get(f"/apis/{GROUP}")
    except ApiError:
        return False
    return True


async def test_claimed_gpus_are_counted_once_their_claim_is_there_and_paid_for(
    world: World,
) -> None:
    if not await is_served(world):
        pytest.skip("this Kubernetes has no dynamic resource allocation")
    await add_machine(world, gpus=4)
    await create_claiming(world)
    async with world.operator():
        job = await world.until_job(lambda s: s.get("reason") == "ProcessesUnknown")
        assert "ResourceClaimTemplate two-gpus does not exist" in job["status"]["message"]
        assert await world.pods() == []
        templates = at("resourceclaimtemplates", world.namespace, group=GROUP)
        body = {"metadata": {"name": "two-gpus"}, "spec": {"spec": CLAIM}}
        await world.kube.create(templates, body)
        job = await world.until_job(lambda s: s.get("cost", {}).get("usdPerHour"))
        await create_claiming(world, "other")
        other = await world.until_job(lambda s: s.get("cost", {}).get("usdPerHour"), "other")
    (pod,) = await world.pods()
    assert "--nproc-per-node=2" in pod["spec"]["containers"][0]["command"]
    assert pod["metadata"]["annotations"]["spotrun.dev/devices"] == "2"
    # By its core it would be $0.11. How many GPUs the node has it does not say in its status.
    assert job["status"]["cost"]["usdPerHour"] == "8"
    assert other["status"]["cost"]["usdPerHour"] == "4", "as the first one does from now on"


async def test_where_claims_are_not_served_it_is_said_and_a_number_of_processes_will_do(
    world: World,
) -> None:
    if await is_served(world):
        pytest.skip("this Kubernetes has dynamic resource allocation")
    await world.nodes.add("a", capacity=ROOM)
    await create_claiming(world)
    async with world.operator():
        job = await world.until_job(lambda s: s.get("reason") == "ProcessesUnknown")
        assert "does not serve resource.k8s.io/v1" in job["status"]["message"]
        await world.patch_job({"suspend": True, "workers": {"processes": 2}})
        await world.until_phase("Suspended")
        await world.patch_job({"suspend": False})
        await world.until_phase("Running")
