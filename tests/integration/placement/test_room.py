"""Who gets the room on nodes: jobs that come together, pods of others, jobs that fit no node."""

import asyncio
from typing import Any

import pytest

from devcluster.client import Manifest, at
from spotrun.policies.placement import free_capacity, supply
from spotrun.policies.placement.free_capacity import TRIED_SECONDS
from tests.integration.spot.helpers import (
    ONE_PER_NODE,
    add_node,
    create_job,
    lack,
    until_pools,
    until_training,
)
from tests.support.cluster.operator_world import World

CHEAP, DEAR = {"spotrun.dev/usd-per-hour": "0.40"}, {"spotrun.dev/usd-per-hour": "0.41"}


async def two_equal_nodes(world: World) -> None:
    """A node in each of two zones, of which one is a little cheaper."""
    await add_node(world, "a", zone="us-east-1a", annotations=CHEAP)
    await add_node(world, "b", zone="us-east-1b", annotations=DEAR)


async def test_two_jobs_that_are_applied_together_take_a_node_each_at_once(world: World) -> None:
    await two_equal_nodes(world)
    async with world.operator():
        await until_pools(world, 2)
        await asyncio.gather(*(create_job(world, 1, name=name) for name in ("x", "y")))
        jobs = [await world.until_phase("Running", name) for name in ("x", "y")]
        nodes = [(await world.pods(name))[0]["spec"]["nodeName"] for name in ("x", "y")]
    assert sorted(nodes) == ["a", "b"]
    assert [job["status"]["nextWorkerId"] for job in jobs] == [1, 1], "nobody was asked elsewhere"


async def test_who_finds_a_pool_full_of_others_pods_is_asked_from_a_free_one_soon(
    world: World,
) -> None:
    await two_equal_nodes(world)
    await world.kube.create(at("pods", world.namespace), a_pod_of_others("a"))
    async with world.operator():
        await until_pools(world, 2)
        await create_job(world, 1)
        await world.until_job(lambda status: "find no node" in lack(status))
        status = await until_training(world, 1)
        (pod,) = await world.pods()
    assert pod["spec"]["nodeName"] == "b"
    assert [one["what"] for one in status["decisions"]][:2] == ["Placed", "Placed"]


async def test_room_that_is_not_known_is_found_in_a_pool_that_has_just_lost_a_node(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers request nothing, so only the scheduler knows that there is room beside one."""
    for module in (free_capacity, supply):
        monkeypatch.setattr(module, "FIXED_SECONDS", TRIED_SECONDS + 1)
    of_two: dict[str, Any] = {"zone": "us-east-1b", "annotations": DEAR, "room": {"pods": "2"}}
    await add_node(world, "beside", **of_two)
    async with world.operator():
        await until_pools(world, 1)
        await world.create_job("first")
        await world.until_phase("Running", "first")
        lost = await add_node(world, "lost", **of_two)
        await lost.vanish(delete_node=True)
        await add_node(world, "full", annotations=CHEAP, room={"pods": "1"})
        await world.kube.create(at("pods", world.namespace), a_pod_of_others("full"))
        await until_pools(world, 2)  # the watch of nodes has told of the lost one before

        await world.create_job()
        job = await world.until_phase("Running")
        (pod,) = await world.pods()
    assert pod["spec"]["nodeName"] == "beside"
    assert [one["what"] for one in job["status"]["decisions"]] == ["Placed", "Placed", "World"]


async def test_a_job_whose_workers_fit_no_node_does_not_keep_others_from_theirs(
    world: World,
) -> None:
    await two_equal_nodes(world)
    async with world.operator():
        await until_pools(world, 2)
        await world.create_job("large", workers={"template": asking({"cpu": "64"})})
        await world.until_job(lambda status: "too few CPU" in lack(status), "large")

        await create_job(world, 3, name="gang", smallest=3)
        await world.until_job(lambda status: "1 find no node" in lack(status), "gang")
        held = await _on_nodes(world, "gang")
        await add_node(world, "c")
        await world.until_phase("Running", "gang")
        found = await _on_nodes(world, "gang")
    assert sorted(held.values()) == ["a", "b"]
    assert held.items() <= found.items(), "it held two nodes until the third came"
    assert sorted(found.values()) == ["a", "b", "c"]


async def _on_nodes(world: World, job: str) -> dict[str, str]:
    """The nodes of a job's pods, by pod."""
    pods = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in await world.pods(job)}
    return {name: node for name, node in pods.items() if node}


def asking(requests: dict[str, str]) -> dict[str, Any]:
    resources = {"requests": requests}
    trainer = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": resources}
    return {"spec": {"containers": [trainer]}}


def a_pod_of_others(node: str) -> Manifest:
    """One that no job has made: its room is not known to be taken."""
    container = {"name": "x", "image": "x", "resources": ONE_PER_NODE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other"},
        "spec": {"nodeName": node, "containers": [container]},
    }
