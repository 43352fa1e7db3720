"""Workers that fall silent without a word from Kubernetes: a stopped machine, a dead link."""

import asyncio

from devcluster.client import Manifest
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.runtime.controller import Controller
from tests.support.cluster.operator_world import World
from tests.support.cluster.tcp_relay import relayed

WORKERS = {"min": 2, "max": 3, "replicas": 3}
TRAINER = {
    "name": "trainer",
    "image": "x",
    "args": ["train.py"],
    "resources": {"requests": {"cpu": "5"}},
}
ONE_PER_NODE = {"spec": {"containers": [TRAINER]}}


def has_led_for_long(controller: Controller) -> None:
    """A new leader concludes nothing from silence for a minute."""
    controller._leading_since = float("-inf")


async def trains(world: World, members: str) -> int:
    """Wait until exactly these train, in whichever order; returns the world's number."""
    worker_ids = set(WorkerIds(members).numbers)

    def holds(status: Manifest) -> bool:
        found = status.get("world")
        return bool(
            found and found["active"] and set(WorkerIds(found["members"]).numbers) == worker_ids
        )

    job = await world.until_job(holds)
    world_number: int = job["status"]["world"]["number"]

    async def arrived() -> bool:
        agents = world.play().agents
        return all(n in agents and agents[n].report.arrived >= world_number for n in worker_ids)

    await world.until(arrived)
    return world_number


async def rank_of(world: World, worker_id: int) -> int:
    """The rank of a worker in the present world."""
    job = await world.job()
    return list(WorkerIds(job["status"]["world"]["members"]).numbers).index(worker_id)


async def test_a_silent_worker_whom_its_neighbours_miss_is_lost_within_seconds(
    world: World,
) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    async with world.operator() as controller, relayed(f"{world.host}:{world.port}") as link:
        world.play().servers[1] = link.address
        await world.create_job(workers=WORKERS)
        await trains(world, "0-2")
        has_led_for_long(controller)

        link.hold()
        began = asyncio.get_running_loop().time()
        for worker_id in (0, 2):
            world.agent(worker_id).suspect(1)
        # With or without the replacement, which in a test is there within the debounce.
        job = await world.until_job(lambda s: s["world"]["members"] in {"0,2", "0,2-3"})
        seconds = asyncio.get_running_loop().time() - began

        assert job["status"]["world"]["entry"] == "Abort"
        # 1 s for an answer and 0.3 s for further losses; a held poll alone would last 17 s or more.
        assert seconds < 12
        await trains(world, "0,2-3")
        await world.until_job(lambda s: s.get("settled") == "1")


async def test_a_replacement_keeps_away_from_a_node_that_only_looks_well(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        await world.nodes.add(name, capacity={"cpu": "8", "memory": "32Gi"})
    async with world.operator() as controller, relayed(f"{world.host}:{world.port}") as link:
        world.play().servers[1] = link.address
        await world.create_job(workers={**WORKERS, "template": ONE_PER_NODE})
        await trains(world, "0-2")
        has_led_for_long(controller)
        (lost,) = [pod for pod in await world.pods() if worker_id(pod) == 1]

        link.hold()
        rank = await rank_of(world, 1)  # ranks go by node, and which that is, the scheduler says
        for neighbour in (0, 2):
            world.agent(neighbour).suspect(rank)
        job = await world.until_job(lambda s: s.get("interruptions", {}).get("count") == 1)
        assert job["status"]["interruptions"]["last"]["reason"] == "NodeLost"
        await trains(world, "0,2-3")

        (made,) = [pod for pod in await world.pods() if worker_id(pod) == 3]
        assert made["metadata"]["annotations"]["spotrun.dev/avoids"] == lost["spec"]["nodeName"]
        assert made["spec"]["nodeName"] != lost["spec"]["nodeName"]
        job = await world.until_job(lambda s: s.get("settled") == "1")
        assert job["status"]["interruptions"]["count"] == 1
        assert "lost" not in job["status"]


def worker_id(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"]["spotrun.dev/worker-id"])


async def test_a_worker_that_answers_is_not_lost_because_a_neighbour_misses_it(
    world: World,
) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    async with world.operator() as controller:
        await world.create_job(workers=WORKERS)
        world_number = await trains(world, "0-2")
        has_led_for_long(controller)

        world.agent(0).suspect(1)
        await asyncio.sleep(3)  # three times as long as a silent one is waited for

        job = await world.job()
        assert job["status"]["world"]["number"] == world_number
