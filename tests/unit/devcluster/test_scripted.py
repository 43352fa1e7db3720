from typing import Any

from devcluster.kubelet.runtime import Manifest
from devcluster.platforms import Platform, pool_labels, region_of
from devcluster.scripted import FOREVER, Script, Scripted, resolved_env

POD: Manifest = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"rank": "3"}},
    "spec": {"containers": [{"name": "main"}]},
}
NODE: Manifest = {"metadata": {"name": "node"}}


async def test_each_pod_has_its_own_address() -> None:
    runtime = Scripted(FOREVER, network="10.7.0.0/24")
    assert [(await runtime.sandbox(POD, NODE)).pod_ip for _ in range(2)] == ["10.7.0.1", "10.7.0.2"]


async def test_a_function_chooses_the_script_of_a_pod() -> None:
    runtime = Scripted(lambda pod: Script(output=pod["metadata"]["name"], run_seconds=0))
    sandbox = await runtime.sandbox(POD, NODE)
    await (await sandbox.start({"name": "main"}, 0)).wait()
    assert [line async for line in sandbox.logs("main", follow=True, tail=None)] == [b"p\n"]


async def test_a_script_without_delays_has_ended_when_it_has_started() -> None:
    sandbox = await Scripted(Script(run_seconds=0)).sandbox(POD, NODE)
    container: Any = await sandbox.start({"name": "main"}, 0)
    assert container._ended.done()


async def test_removing_a_sandbox_ends_even_what_cannot_be_killed() -> None:
    sandbox = await Scripted(Script(stop_exit=None, ends_on_kill=False)).sandbox(POD, NODE)
    container = await sandbox.start({"name": "main"}, 0)
    container.terminate()
    container.kill()
    await sandbox.remove()
    assert (await container.wait()).code == 137


def test_the_environment_has_literals_and_fields_but_no_secrets() -> None:
    def field(path: str) -> Manifest:
        return {"fieldRef": {"fieldPath": path}}

    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "EMPTY"},
        {"name": "RANK", "valueFrom": field("metadata.labels['rank']")},
        {"name": "NODE", "valueFrom": field("spec.nodeName")},
        {"name": "IP", "valueFrom": field("status.podIP")},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert resolved_env({"name": "main", "env": env}, POD, NODE, "10.0.0.9") == {
        "PLAIN": "x",
        "EMPTY": "",
        "RANK": "3",
        "NODE": "node",
        "IP": "10.0.0.9",
    }


def test_spot_and_on_demand_look_different_on_every_platform_that_tells_them_apart() -> None:
    for platform in Platform:
        spot = pool_labels(platform, capacity="spot")
        on_demand = pool_labels(platform, capacity="on-demand")
        assert (spot == on_demand) is (platform is Platform.PLAIN), platform


def test_the_marks_of_a_spot_pool_of_aks() -> None:
    marks = pool_labels(Platform.AKS, zone="westeurope-2", instance_type="Standard_NC24ads_A100_v4")
    assert marks.labels == {
        "node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4",
        "topology.kubernetes.io/zone": "westeurope-2",
        "topology.kubernetes.io/region": "westeurope",
        "kubernetes.azure.com/agentpool": "gpu",
        "kubernetes.azure.com/scalesetpriority": "spot",
    }
    assert marks.taints == (
        {
            "key": "kubernetes.azure.com/scalesetpriority",
            "value": "spot",
            "effect": "NoSchedule",
        },
    )


def test_a_region_is_found_in_its_zones_name() -> None:
    zones = ("us-east-1a", "us-central1-b", "westeurope-2")
    assert [region_of(z) for z in zones] == ["us-east-1", "us-central1", "westeurope"]
