from typing import Any

from devcluster.client import Manifest, at
from tests.operator_world import World


async def test_a_job_is_created_trains_and_succeeds(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 2, "max": 4, "replicas": 3})
    async with world.operator():
        job = await world.until_phase("Running")
        assert job["status"]["world"]["members"] == "0-2"
        await world.until(lambda: _all_arrived(world, 3))
        world.play("job").may_finish.set()
        await world.until_phase("Succeeded")
        job = await world.until_job(lambda status: status.get("settled") == "0-2")
        assert job["status"]["nextSerial"] == 3
        pods = await world.until(lambda: _all_released(world))
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 3


async def test_a_lost_worker_is_replaced_and_the_others_go_on(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 2, "max": 3, "replicas": 3})
    async with world.operator():
        await world.until_phase("Running")
        await world.until(lambda: _all_arrived(world, 3))
        await world.kube.delete(_pod(world, (await world.pods())[1]), grace_seconds=0)
        await world.until_job(lambda s: s["world"]["members"] == "0,2-3" and s["world"]["switch"])
        # Its replacement does not wait for that: the lost one is settled once its kubelet has said
        # that it has ended, which on a busy machine comes later.
        job = await world.until_job(lambda s: s.get("settled") == "1")
        assert job["status"]["nextSerial"] == 4


async def test_a_deleted_job_leaves_nothing(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    async with world.operator():
        await world.until_phase("Running")
        await world.kube.delete(world.jobs("job"))

        async def gone() -> bool:
            return await world.pods() == []

        await world.until(gone)


async def test_suspending_saves_a_checkpoint_first(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    claim: Manifest = {"volume": {"emptyDir": {}}}
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2}, checkpoint=claim)
    async with world.operator():
        await world.until_phase("Running")
        await world.until(lambda: _all_arrived(world, 2))
        await world.patch_job({"suspend": True})
        job = await world.until_job(
            lambda s: s["phase"] == "Suspended" and s.get("settled") == "0-1"
        )
        assert job["status"]["checkpoint"]["name"] == "step-100.g1"
        await world.patch_job({"suspend": False})
        job = await world.until_job(
            lambda s: s["phase"] == "Running" and s["world"]["members"] == "2-3"
        )
        assert job["status"]["world"]["restore"] == "step-100.g1"


async def test_a_claim_of_one_node_is_refused_to_several_workers_before_any_is_made(
    world: World,
) -> None:
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "ours"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await world.kube.create(at("persistentvolumeclaims", world.namespace), claim)
    volume = {"volume": {"persistentVolumeClaim": {"claimName": "ours"}}}
    await world.create_job(workers={"min": 1, "max": 2, "replicas": 2}, checkpoint=volume)
    async with world.operator():
        job = await world.until_job(lambda s: s.get("reason") == "VolumeNotShared")
    conditions = {c["type"]: (c["status"], c["reason"]) for c in job["status"]["conditions"]}
    assert conditions["CheckpointUsable"] == ("False", "VolumeNotShared")
    assert await world.pods() == []


async def _all_arrived(world: World, count: int) -> bool:
    agents = world.play("job").agents.values()
    generation: int = (await world.job())["status"]["world"]["generation"]
    return sum(agent.report.arrived == generation for agent in agents) == count


async def _all_released(world: World) -> Any:
    pods = await world.pods()
    return pods if not any(p["metadata"].get("finalizers") for p in pods) else None


def _pod(world: World, pod: Any) -> str:
    return f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}"
