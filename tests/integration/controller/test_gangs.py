"""Two jobs and nodes for one of them: half of each would help nobody."""

from typing import Any

from tests.support.cluster.operator_world import World

CPU = {"cpu": "1", "memory": "8Gi"}


def workers(size: int, cpu: str = "1") -> dict[str, Any]:
    requests = {"resources": {"requests": {"cpu": cpu}}}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], **requests}
    template = {"spec": {"containers": [container]}}
    return {"min": size, "max": size, "replicas": size, "template": template}


async def lacks_a_node(world: World, job: str) -> None:
    await world.until_job(lambda s: s.get("reason") == "WaitingForCapacity" and _is_short(s), job)


async def test_a_gang_that_is_half_placed_is_completed_before_another_one_begins(
    world: World,
) -> None:
    for name in ("a", "b"):
        await world.nodes.add(name, capacity=CPU)
    async with world.operator():
        # Of two that are created within one second the UID would decide.
        await world.create_job("first", workers=workers(3), priority=1)
        await lacks_a_node(world, "first")
        await world.create_job("second", workers=workers(1))
        waits = await world.until_job(lambda s: s.get("reason") == "WaitingForGang", "second")
        assert waits["status"]["phase"] == "Pending"
        await world.until_no_pods("second")

        await world.nodes.add("c", capacity=CPU)
        await world.until_phase("Running", "first")
        await lacks_a_node(world, "second")
        await world.nodes.add("d", capacity=CPU)
        job = await world.until_phase("Running", "second")
        conditions = {c["type"]: c["status"] for c in job["status"]["conditions"]}
        assert conditions["CapacityAvailable"] == "True"


async def test_a_gang_gives_its_nodes_back_to_one_of_higher_priority_and_has_its_turn_after(
    world: World,
) -> None:
    for name in ("a", "b"):
        await world.nodes.add(name, capacity=CPU)
    async with world.operator():
        await world.create_job("first", workers=workers(3))
        await lacks_a_node(world, "first")
        await world.create_job("urgent", workers=workers(2), priority=1)
        await world.until_phase("Running", "urgent")
        await lacks_a_node(world, "first")  # it has its turn again, and stays in line
        world.play("urgent").may_finish.set()
        await world.until_phase("Succeeded", "urgent")
        await world.nodes.add("c", capacity=CPU)
        await world.until_phase("Running", "first")


async def test_a_job_without_room_says_so_in_the_schedulers_words(world: World) -> None:
    await world.nodes.add("a", capacity=CPU)
    await world.create_job(workers=workers(1, cpu="2"))
    async with world.operator():
        job = await world.until_job(lambda s: "Insufficient cpu" in s.get("message", ""))
    status = job["status"]
    assert (status["phase"], status["reason"]) == ("Pending", "WaitingForCapacity")
    found = next(c for c in status["conditions"] if c["type"] == "CapacityAvailable")
    assert (found["status"], found["reason"]) == ("False", "WaitingForCapacity")
    assert "of 1 workers 1 find no node" in found["message"]


def _is_short(status: dict[str, Any]) -> bool:
    found = (c["status"] for c in status.get("conditions", ()) if c["type"] == "CapacityAvailable")
    return next(found, None) == "False"
