"""Stages and the early end of a job, with an operator that is replaced in the midst of them."""

from decimal import Decimal
from typing import Any

import pytest

from devcluster.client import Manifest, at
from tests.integration.money.helpers import PRICE
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "64", "memory": "64Gi", "pods": "1"}
PLACE = {"uri": "s3://bucket/place"}
STAGES: list[dict[str, Any]] = [
    {"name": "short", "untilStep": 1_000},
    {"name": "middle", "untilStep": 2_000},
    {"name": "long"},
]
TWO = {"min": 1, "max": 2, "replicas": 2}


def stage_of(job: Manifest) -> tuple[str, int]:
    stage = job["status"]["stage"]
    return stage["name"], stage["sinceStep"]


def name_of(status: Any) -> str:
    return str(status.get("stage", {}).get("name", ""))


def stages_in(job: Manifest) -> list[str]:
    """Return the stages that were begun, in their order, as the job's decisions say."""
    made = [one for one in job["status"]["decisions"] if one["what"] == "Stage"]
    return [one["numbers"]["stage"] for one in made]


async def begun(world: World, name: str) -> Manifest:
    """Wait until all workers train a stage."""

    def holds(status: Any) -> bool:
        return name_of(status) == name and status.get("world", {}).get("active", False)

    job = await world.until_job(holds)
    number = job["status"]["world"]["number"]
    members = [n for n in (0, 1) if n in world.play().agents]

    async def all_there() -> bool:
        return all(world.agent(n).report.arrived >= number for n in members)

    await world.until(all_there)
    return job


async def test_each_stage_begins_in_the_same_pods_though_operators_come_and_go(
    world: World,
) -> None:
    for name in ("a", "b"):
        await world.nodes.add(name, capacity=ROOM, annotations={PRICE: "36"})
    await world.create_job(workers=TWO, stages=STAGES, checkpoint=PLACE)
    async with world.operator():
        await begun(world, "short")
        pods = {pod["metadata"]["uid"] for pod in await world.pods()}
        world.play().may_finish_stages = 1
        await world.until_job(lambda s: name_of(s) == "middle")
    world.play().may_finish_stages = 2  # nobody is there to hear it
    async with world.operator():
        job = await begun(world, "long")
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == pods
        assert stage_of(job) == ("long", 2_000)
        assert (job["status"]["world"]["restore"], job["status"]["world"]["stage"]) == (
            f"step-2000.g{job['status']['world']['number'] - 1}",
            2,
        )
        world.play().may_finish.set()
        done = await world.until_phase("Succeeded")
        told = await world.kube.list(at("events", world.namespace, group="events.k8s.io/v1"))
    assert Decimal(done["status"]["cost"]["usd"]) > 0
    notes = [one["note"] for one in told if one["reason"] == "StageBegun"]
    assert stages_in(done) == ["1", "2"]
    assert any("stage long, 3 of 3, begins" in note for note in notes)


async def test_a_node_lost_in_the_change_neither_skips_nor_repeats_a_stage(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.nodes.add(name, capacity=ROOM)
    await world.create_job(workers=TWO, stages=STAGES, checkpoint=PLACE)
    async with world.operator():
        await begun(world, "short")
        pod = (await world.pods())[1]
        world.play().may_finish_stages = 1
        await world.until_job(lambda s: name_of(s) == "middle")
        await world.nodes[pod["spec"]["nodeName"]].vanish(delete_node=True)
    async with world.operator():
        job = await world.until_job(lambda s: s["world"]["members"] == "0,2")
        assert stage_of(job) == ("middle", 1_000)
        assert job["status"]["world"]["stage"] == 1
        world.play().may_finish_stages = 2
        job = await world.until_job(lambda s: name_of(s) == "long")
        world.play().may_finish.set()
        job = await world.until_phase("Succeeded")
    assert stages_in(job) == ["1", "2"]


@pytest.mark.parametrize("staged", [False, True])
async def test_a_job_ends_by_its_metric_though_operators_come_and_go(
    world: World, staged: bool
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    stop_when = {"metric": "loss", "goal": "0.2"}
    more = {"stages": [{"name": "only", "stopWhen": stop_when}]}
    await world.create_job(checkpoint=PLACE, **(more if staged else {"stopWhen": stop_when}))
    world.play().metrics["loss"] = 0.1

    def is_decided(status: Any) -> bool:
        return "endsSince" in status.get("stage", {}) or "decidedAt" in status.get("stopWhen", {})

    async with world.operator():
        await world.until_job(is_decided)
    async with world.operator():
        job = await world.until_phase("Succeeded")
    assert job["status"]["reason"] == "GoalReached"
