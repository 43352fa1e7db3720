"""Ends of workers that only a kubelet can tell: before they began, or with others beside them."""

from devcluster.client import Manifest
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "64", "memory": "64Gi"}
TRAINER = {"name": "trainer", "image": "x", "args": ["train.py"]}
WITH_LOGS = {"spec": {"containers": [TRAINER, {"name": "logs", "image": "y"}]}}


async def test_who_is_rejected_by_a_node_is_made_anew_for_another_one(world: World) -> None:
    bad = await world.nodes.add("bad", capacity=ROOM)
    bad.reject_pods("OutOfcpu", "Node didn't have enough resource: cpu, used: 64000")
    await world.create_job(workers={"min": 1, "max": 1, "replicas": 1}, failures={"maxRestarts": 0})
    async with world.operator():
        job = await world.until_job(lambda s: s.get("reason") == "Rejected")
        said = (
            "node bad rejected worker 0: OutOfcpu: Pod was rejected: "
            "Node didn't have enough resource: cpu, used: 64000"
        )
        assert said in job["status"]["message"]
        await world.nodes.add("good", capacity=ROOM)
        job = await world.until_phase("Running")
        pods = await world.pods()
    status = job["status"]
    assert (status["rejections"]["count"], status["rejections"]["nodes"]) == (1, ["bad"])
    assert (status["settled"], status["world"]["members"]) == ("0", "1")
    assert "restarts" not in status
    assert "interruptions" not in status
    assert [pod["spec"].get("nodeName") for pod in pods] == ["bad", "good"]
    assert pods[1]["metadata"]["annotations"]["spotrun.dev/avoids"] == "bad"


async def test_a_crash_counts_once_however_long_a_container_beside_it_runs_on(
    world: World,
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    await world.create_job(
        workers={"min": 1, "max": 2, "replicas": 2, "template": WITH_LOGS},
        failures={"maxRestarts": 1},
    )
    async with world.operator():
        await world.until_phase("Running")
        world.play().crash[1] = 3
        world.agent(1).suspect()  # it looks up
        job = await world.until_job(lambda s: failures(s) == 1)
        assert job["status"]["failed"] == "1"
        # Its replacement comes after the pause, before the pod has gone.
        await world.until_job(lambda s: s["world"]["members"] == "0,2" and s["world"]["active"])
        assert "settled" not in (await world.job())["status"]
        job = await world.until_job(lambda s: s.get("settled") == "1" and "failed" not in s)
    restarts = job["status"]["restarts"]
    assert (restarts["failures"], restarts["lastReason"]) == (1, "ExitCode")
    assert restarts["lastExitCode"] == 3


def failures(status: Manifest) -> int:
    found: int = status.get("restarts", {}).get("failures", 0)
    return found
