"""Containers that are put into the pods of workers, by others and by the operator."""

from typing import Any

import pytest

from devcluster.client import Manifest, at
from tests.support.cluster.operator_world import World
from tests.support.cluster.webhooks import Patch, mutating

ROOM = {"cpu": "64", "memory": "64Gi"}


def with_logs(pod: Manifest) -> Patch:
    """As meshes do that want to be started first; `logs` is played as running on after SIGTERM."""
    return [{"op": "add", "path": "/spec/containers/0", "value": {"name": "logs", "image": "y"}}]


def a_template(name: str) -> dict[str, Any]:
    container = {"name": name, "image": "x", "args": ["train.py"]}
    return {"template": {"spec": {"containers": [container]}}}


@pytest.mark.parametrize("name", ["main", "trainer"])
async def test_a_crash_is_a_failure_of_the_job_though_a_sidecar_was_injected(
    world: World, name: str
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    async with mutating(world, with_logs), world.operator():
        await world.create_job(workers=a_template(name), failures={"maxRestarts": 0})
        await world.until_phase("Running")
        world.play().crash[0] = 137
        world.agent(0).suspect()  # it looks up
        job = await world.until_phase("Failed")
    status = job["status"]
    restarts = status["restarts"]
    said = (restarts["failures"], restarts["lastReason"], restarts["lastExitCode"])
    assert said == (1, "ExitCode", 137)
    assert status["reason"] == "TooManyRestarts"
    assert "interruptions" not in status


async def test_a_training_that_is_complete_is_seen_beside_an_injected_sidecar(
    world: World,
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    async with mutating(world, with_logs), world.operator():
        await world.create_job(workers=a_template("main"))
        await world.until_phase("Running")
        world.play().may_finish.set()
        job = await world.until_phase("Succeeded")
    assert job["status"]["nextWorkerId"] == 1
    assert "restarts" not in job["status"]


ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


async def test_the_token_of_a_pods_account_is_for_its_own_containers(world: World) -> None:
    await world.nodes.add("a", capacity=ROOM)
    template = a_template("main")
    template["template"]["spec"]["automountServiceAccountToken"] = True
    async with world.operator(inject_image="operator:1"):
        await world.create_job(workers=template)
        await world.until_phase("Running")
        (pod,) = await world.pods()
    (ours,), (trainer,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    assert mounted_at(ACCOUNT, trainer).startswith("kube-api-access-")
    assert mounted_at(ACCOUNT, ours) == "spotrun-package"


def mounted_at(path: str, container: Manifest) -> str:
    (name,) = (m["name"] for m in container["volumeMounts"] if m["mountPath"] == path)
    return str(name)


def injected(pod: Manifest) -> str:
    return str(pod["metadata"]["annotations"]["spotrun.dev/injected"])


async def test_a_replacement_has_the_package_of_those_it_trains_with(world: World) -> None:
    for node in ("a", "b", "c"):
        await world.nodes.add(node, capacity=ROOM)
    sizes = {"min": 1, "max": 2, "replicas": 2}
    async with world.operator(inject_image="operator:1"):
        await world.create_job(workers={**a_template("main"), **sizes})
        await world.until_phase("Running")
        first, second = await world.pods()
    async with world.operator(inject_image="operator:2"):
        await world.kube.delete(at("pods", world.namespace, second["metadata"]["name"]))
        third = await a_pod_from(world, 2)
        assert [injected(pod) for pod in (first, second, third)] == ["operator:1"] * 3
        await world.patch_job({"suspend": True})
        await world.until_phase("Suspended")
        await world.patch_job({"suspend": False})
        assert injected(await a_pod_from(world, 3)) == "operator:2", "none of the others is left"


async def a_pod_from(world: World, worker_id: int) -> Manifest:
    """Return the first pod with this number or a later one."""

    async def look() -> list[Manifest]:
        pods = await world.pods()
        return [
            p for p in pods if int(p["metadata"]["labels"]["spotrun.dev/worker-id"]) >= worker_id
        ]

    found: list[Manifest] = await world.until(look)
    return found[0]
