from typing import Any

from devcluster.client import Manifest
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
        job = await world.until_job(lambda s: s["world"]["members"] == "0,2-3")
        assert job["status"]["world"]["switch"]
        assert job["status"]["settled"] == "1"


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


async def _all_arrived(world: World, count: int) -> bool:
    agents = world.play("job").agents.values()
    generation: int = (await world.job())["status"]["world"]["generation"]
    return sum(agent.report.arrived == generation for agent in agents) == count


async def _all_released(world: World) -> Any:
    pods = await world.pods()
    return pods if not any(p["metadata"].get("finalizers") for p in pods) else None


def _pod(world: World, pod: Any) -> str:
    return f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}"
