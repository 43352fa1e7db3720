from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devcluster.client import Manifest, at
from spotrun.policies.chain import decide
from spotrun.state.actions import Decision
from spotrun.state.snapshot import JobSnapshot
from tests.support.cluster.operator_world import World


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
        assert job["status"]["nextWorkerId"] == 3
        pods = await world.until(lambda: _all_released(world))
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 3


async def test_a_lost_worker_is_replaced_and_the_others_go_on(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 2, "max": 3, "replicas": 3})
    async with world.operator():
        await world.until_phase("Running")
        await world.until(lambda: _all_arrived(world, 3))
        await world.kube.delete(_pod(world, (await world.pods())[1]), grace_seconds=0)
        await world.until_job(lambda s: s["world"]["members"] == "0,2-3" and s["world"]["active"])
        # Its replacement does not wait for that: the lost one is settled once its kubelet has said
        # that it has ended, which on a busy machine comes later.
        job = await world.until_job(lambda s: s.get("settled") == "1")
        assert job["status"]["nextWorkerId"] == 4


async def test_a_deleted_job_leaves_nothing(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    async with world.operator():
        await world.until_phase("Running")
        await world.kube.delete(world.jobs("job"))
        await world.until_no_pods()


async def test_a_job_made_again_does_not_meet_the_workers_of_its_predecessor(
    world: World,
) -> None:
    room = {"cpu": "64", "memory": "64Gi"}
    workers = {"min": 2, "max": 2, "replicas": 2}
    machine = await world.nodes.add("a", capacity=room)
    await world.create_job(workers=workers)
    async with world.operator():
        await world.until_phase("Running")
        old = {pod["metadata"]["name"] for pod in await world.pods()}
        machine.go_silent()  # and takes no orders: its pods stay, and are to go
        await world.kube.delete(world.jobs("job"))
        await world.until(lambda: _all_are_to_go(world, old))

        await world.nodes.add("b", capacity=room)
        await world.kube.patch(at("nodes", None, "a"), {"spec": {"unschedulable": True}})
        await world.create_job(workers=workers)
        job = await world.until_phase("Running")
        assert job["status"]["world"]["number"] == 1
        assert job["status"]["nextWorkerId"] == 2
        new = {pod["metadata"]["name"] for pod in await world.pods()} - old
        assert len(new) == 2

        await machine.come_back()
        await world.until(lambda: _are_all_there_is(world, new))
        assert (await world.job())["status"]["world"]["number"] == 1


async def test_a_job_at_which_a_policy_fails_says_so_and_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_mended = False

    def decide_or_fail(job: JobSnapshot, now: datetime) -> Decision:
        if job.name == "poison" and not is_mended:
            raise KeyError("no such policy")
        return decide(job, now)

    monkeypatch.setattr("spotrun.runtime.reconciler.decide", decide_or_fail)
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job("poison")
    await world.create_job("neighbour")
    async with world.operator():
        job = await world.until_job(lambda s: s.get("reason") == "Undecided", "poison")
        await world.until_phase("Running", "neighbour")
        assert "KeyError: 'no such policy'" in job["status"]["message"]
        assert await world.pods("poison") == []
        is_mended = True
        job = await world.until_phase("Running", "poison")
    stated = {c["type"]: c["status"] for c in job["status"]["conditions"]}
    assert stated["Decided"] == "True"


async def test_a_job_works_in_its_windows_only(world: World) -> None:
    now = datetime.now(UTC)
    soon, later = (f"{now + timedelta(hours=hours):%H}:00" for hours in (6, 8))
    earlier = f"{now - timedelta(hours=1):%H}:00"
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    closed = {"windows": [{"from": soon, "to": later, "timeZone": "UTC"}]}
    opened = {"windows": [{"from": earlier, "to": soon, "timeZone": "UTC"}]}
    kept = {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}}
    await world.create_job(schedule=closed, checkpoint=kept)
    async with world.operator():
        job = await world.until_phase("Suspended")
        status = job["status"]
        assert (status["suspendedBy"], status["reason"]) == (["Schedule"], "OutsideSchedule")
        assert await world.pods() == []
        await world.patch_job({"schedule": opened})
        await world.until_phase("Running")
        await world.patch_job({"schedule": closed})
        await world.until_job(lambda s: s["phase"] == "Suspended" and s.get("settled") == "0")


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
    world_number: int = (await world.job())["status"]["world"]["number"]
    return sum(agent.report.arrived == world_number for agent in agents) == count


async def _all_are_to_go(world: World, names: set[str]) -> bool:
    pods = [pod["metadata"] for pod in await world.pods()]
    return {pod["name"] for pod in pods if pod.get("deletionTimestamp")} == names


async def _are_all_there_is(world: World, names: set[str]) -> bool:
    return {pod["metadata"]["name"] for pod in await world.pods()} == names


async def _all_released(world: World) -> Any:
    pods = await world.pods()
    return pods if not any(p["metadata"].get("finalizers") for p in pods) else None


def _pod(world: World, pod: Any) -> str:
    return f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}"
