"""Copies of a model of two workers each, on nodes in two zones and on two racks."""

from typing import Any

from devcluster.client import Manifest
from spotrun.api.field_types.text_values import WorkerIds
from tests.integration.spot.helpers import (
    ONE_PER_NODE,
    add_node,
    node_of,
    until_pools,
    until_training,
)
from tests.support.cluster.operator_world import World
from tests.support.jobs.statuses import failures_of

A, B = "us-east-1a", "us-east-1b"
RACK = "example.com/rack"


async def create_pairs(world: World, size: int, **spec: Any) -> None:
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ONE_PER_NODE}
    workers = {
        "min": 2,
        "max": size,
        "replicas": size,
        "perReplica": 2,
        "template": {"spec": {"containers": [container]}},
    }
    await world.create_job("job", workers=workers, **spec)


def replica_of(pod: Manifest) -> tuple[str, str]:
    labels = pod["metadata"]["labels"]
    return labels["spotrun.dev/replica"], labels["spotrun.dev/slot"]


async def homes(world: World) -> dict[str, set[str]]:
    """The first letters of the nodes on which each replica is."""
    found: dict[str, set[str]] = {}
    for pod in await world.pods():
        found.setdefault(replica_of(pod)[0], set()).add(pod["spec"]["nodeName"][0])
    return found


async def test_each_replica_is_in_one_zone_and_moves_as_a_whole(world: World) -> None:
    for name, zone in (("a1", A), ("a2", A), ("b1", B), ("b2", B)):
        await add_node(world, name, zone=zone)
    async with world.operator():
        await until_pools(world, 2)
        await create_pairs(world, 4)
        await until_training(world, 0, 1, 2, 3)
        assert sorted(map(sorted, (await homes(world)).values())) == [["a"], ["b"]]

        for name in ("a3", "a4"):
            await add_node(world, name, zone=A)
        await world.nodes["b1"].vanish(delete_node=True)
        await world.until_job(any_moved)
        await world.until(lambda: all_train_in(world, "a", 4))
        job = await world.until_phase("Running")
    status = job["status"]
    moved = next(one for one in status["decisions"] if one["what"] == "ReplicaMoved")
    assert "us-east-1b has no capacity for 1 of the 2 workers of a replica" in moved["why"]
    assert failures_of(status) == 0


async def test_a_replacement_waits_for_a_node_of_the_rack_that_is_required(world: World) -> None:
    for name in ("m1", "m2"):
        await add_node(world, name, labels={RACK: "r1"})
    async with world.operator():
        await until_pools(world, 1)
        await create_pairs(world, 2, placement={"replicaTopology": {"required": RACK}})
        await until_training(world, 0, 1)
        await add_node(world, "n1", labels={RACK: "r2"})
        await (await node_of(world, 1)).vanish(delete_node=True)
        await world.until_job(lambda status: "find no node" in str(status.get("conditions")))
        await add_node(world, "m3", labels={RACK: "r1"})
        await world.until(lambda: all_train_in(world, "m", 2))


def any_moved(status: Manifest) -> bool:
    return any(one["what"] == "ReplicaMoved" for one in status.get("decisions", ()))


async def all_train_in(world: World, letter: str, number: int) -> bool:
    """Whether there are so many workers, all on such nodes, and all of them train."""
    pods = [pod for pod in await world.pods() if "deletionTimestamp" not in pod["metadata"]]
    status = (await world.job())["status"]
    nodes = [pod["spec"].get("nodeName", "") for pod in pods]
    there = {int(pod["metadata"]["labels"]["spotrun.dev/worker-id"]) for pod in pods}
    members = set(WorkerIds(status["world"].get("members", "")).numbers)
    is_there = len(nodes) == number and all(node.startswith(letter) for node in nodes)
    return is_there and there == members and bool(status["world"].get("active"))
