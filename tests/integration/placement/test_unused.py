"""Nodes that are too few for a gang do not wait with it: others have them until enough are free."""

import pytest

from spotrun.policies.placement import supply
from spotrun.policies.workers import partial_capacity
from tests.integration.spot.helpers import add_node, create_job, until_pools
from tests.support.cluster.operator_world import World


async def test_a_gang_gives_nodes_back_that_are_too_few_and_asks_when_enough_are_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "SCALED_SECONDS", 1.0)
    monkeypatch.setattr(partial_capacity, "LOOK_SECONDS", 1.0)
    for name in ("a", "b"):
        await add_node(world, name, capacity="on-demand")
    async with world.operator():
        await until_pools(world, 1)
        placement = {"giveBackAfter": "0s"}
        await create_job(world, 3, name="gang", smallest=3, placement=placement)
        rests = await world.until_job(lambda status: status.get("unused") is not None, "gang")
        assert (rests["status"]["unused"]["size"], rests["status"]["unused"]["room"]) == (0, 2)
        assert rests["status"]["message"].startswith("the nodes that came were too few to train")
        await world.until_no_pods("gang")

        await create_job(world, 2, name="small", smallest=2)
        await world.until_phase("Running", "small")  # it stands behind nobody
        await add_node(world, "c", capacity="on-demand")
        world.play("small").may_finish.set()
        job = await world.until_phase("Running", "gang")
    assert "unused" not in job["status"]
