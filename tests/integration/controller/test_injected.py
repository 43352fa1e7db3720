"""Containers that others put into the pods of workers: the one that trains is still the one."""

from typing import Any

import pytest

from devcluster.client import Manifest
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
    assert job["status"]["nextSerial"] == 1
    assert "restarts" not in job["status"]
