"""Nodes that are made for workers: after a while, or never."""

import asyncio

import pytest

from devcluster.platforms import Platform
from tests.integration.spot.helpers import (
    add_node,
    create_job,
    declare,
    lack,
    until_pool,
    until_pools,
    until_training,
)
from tests.support.cluster.autoscaler import Offering, provisioning
from tests.support.cluster.operator_world import World

SPOT_OF = {
    Platform.KARPENTER: {"karpenter.sh/capacity-type": "spot"},
    Platform.EKS: {"eks.amazonaws.com/capacityType": "SPOT"},
}
"""Labels of spot nodes; with EKS' node groups it is the cluster autoscaler that makes nodes."""
ON_DEMAND = Offering("g5.2xlarge", capacity="on-demand")


@pytest.mark.parametrize("platform", SPOT_OF)
async def test_workers_wait_for_the_nodes_that_are_made_for_them(
    world: World, platform: Platform
) -> None:
    await declare(
        world,
        "any-a10g",
        capacity="Spot",
        instanceTypes=["g5.xlarge", "g5.2xlarge"],
        zones=["us-east-1a", "us-east-1b"],
        nodeSelector=SPOT_OF[platform],
        usdPerHour="0.42",
    )
    elsewhere = Offering("p3.2xlarge"), Offering("g5.xlarge", "us-east-1c"), ON_DEMAND
    wanted = Offering("g5.2xlarge", "us-east-1b")
    async with world.operator(), provisioning(world, platform, *elsewhere, wanted) as provisioner:
        await until_pools(world, 1)
        await create_job(world, 2, smallest=2)
        job = await world.until_job(lambda s: "find no node" in lack(s))
        assert job["status"]["reason"] == "WaitingForCapacity"
        provisioner.may_deliver.set()
        status = await until_training(world, 0, 1)
    assert status["nextWorkerId"] == 2, "nobody was taken back while it waited"
    assert list(provisioner.asked.values()) == [wanted, wanted]


async def test_where_spot_nodes_are_never_made_on_demand_nodes_are(world: World) -> None:
    await declare(
        world,
        "spot",
        capacity="Spot",
        instanceTypes=["g5.xlarge"],
        zones=["us-east-1a"],
        nodeSelector=SPOT_OF[Platform.KARPENTER],
        usdPerHour="0.42",
    )
    never = Offering(is_dry=True)
    async with (
        world.operator(),
        provisioning(world, Platform.KARPENTER, never, ON_DEMAND) as provisioner,
    ):
        provisioner.may_deliver.set()
        await until_pools(world, 1)
        await create_job(world, 1, placement={"fallbackAfter": "2s"})
        status = await until_training(world, 1)
    assert list(provisioner.asked.values()) == [never, ON_DEMAND]
    assert status["settled"] == "0"
    assert status["workers"]["onDemand"] == 1


@pytest.mark.parametrize("platform", SPOT_OF)
async def test_who_fits_no_node_of_any_pool_is_told_so_in_the_autoscalers_words(
    world: World, platform: Platform
) -> None:
    await add_node(world, "a", platform=platform, room={"cpu": "2"})
    async with world.operator(), provisioning(world, platform) as provisioner:
        await until_pools(world, 1)
        await create_job(world, 1)
        words = f"get none from an autoscaler: {provisioner.refusal.words}; no known pool can take"
        job = await world.until_job(lambda s: words in lack(s))
    assert "a node has too few CPU for a worker" in lack(job["status"])


async def test_a_pool_of_which_autoscalers_make_no_node_is_dry_at_once(world: World) -> None:
    await add_node(world, "a")
    async with world.operator(), provisioning(world, Platform.EKS) as provisioner:
        await until_pools(world, 1)
        await create_job(world, 2, placement={"capacity": "Spot"})
        await world.until_job(lambda s: provisioner.refusal.words in lack(s))
        # Without these words a pool has ten minutes until its nodes have shown their own time.
        pool = await until_pool(
            world, "spot-g5-xlarge-us-east-1a", lambda s: s.get("available") == "False"
        )
        pods = await world.pods()
    assert "retryAt" in pool["status"]
    assert len(pods) == 2, "asked from the same pool again it would not fare better"


async def test_in_a_cluster_that_knows_no_pool_spot_is_asked_for_first(world: World) -> None:
    spot = Offering()
    async with (
        world.operator(),
        provisioning(world, Platform.KARPENTER, ON_DEMAND, spot) as provisioner,
    ):
        provisioner.may_deliver.set()
        await create_job(world, 1)
        await until_training(world, 0)
        await until_pool(world, "spot-g5-xlarge-us-east-1a", lambda s: s["nodes"] == 1)
    assert list(provisioner.asked.values()) == [spot]


async def test_while_no_node_is_ever_made_nothing_churns(world: World) -> None:
    async with (
        world.operator(),
        provisioning(world, Platform.KARPENTER, Offering(is_dry=True)) as provisioner,
    ):
        await create_job(world, 2)
        await world.until_job(lambda s: "find no node" in lack(s))
        before = [pod["metadata"]["uid"] for pod in await world.pods()]
        await asyncio.sleep(3)  # nothing is to happen: there is nothing to wait for
        assert [pod["metadata"]["uid"] for pod in await world.pods()] == before
    assert len(provisioner.asked) == 2
