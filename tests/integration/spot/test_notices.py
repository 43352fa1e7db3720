"""A node says that it goes away: the worker's replacement is there before it leaves."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from devcluster.notices import Dialect
from tests.integration.spot.helpers import (
    add_node,
    create_job,
    members,
    node_of,
    pod_of,
    two_workers_on_three_nodes,
    until_gone,
    until_pool,
    until_training,
)
from tests.support.cluster.operator_world import World

POOL = "spot-g5-xlarge-us-east-1a"
OFF_ALREADY = {Dialect.CLOUD_SHUTDOWN, Dialect.OUT_OF_SERVICE}
WITH_TIME = sorted(set(Dialect) - OFF_ALREADY - {Dialect.AUTOSCALER_CANDIDATE})
SECONDS = {Dialect.GKE_IMPENDING: 30}
"""The other dialects say two minutes."""


@pytest.mark.parametrize("dialect", WITH_TIME)
async def test_the_replacement_trains_before_the_worker_leaves(
    world: World, dialect: Dialect
) -> None:
    await two_workers_on_three_nodes(world)
    may_start = world.play().may_start[2] = asyncio.Event()
    async with world.operator():
        await until_training(world, 0, 1)
        await (await node_of(world, 1)).notice(dialect, SECONDS.get(dialect, 120))
        replacement = await world.until(lambda: _on_a_node(world, 2))
        # The overlap: both have a node, and the one that leaves trains on.
        departing = await pod_of(world, 1)
        assert departing["metadata"].get("deletionTimestamp") is None
        assert members((await world.job())["status"]) == {0, 1}
        assert replacement["spec"]["nodeName"] != departing["spec"]["nodeName"]
        may_start.set()
        await until_training(world, 0, 2, number=2, entry="Boundary")
        await until_gone(world, 1)
    assert world.agent(0).worlds == [1, 2]


@pytest.mark.parametrize("dialect", sorted(OFF_ALREADY))
async def test_from_a_machine_that_is_off_the_others_go_on_at_once(
    world: World, dialect: Dialect
) -> None:
    await two_workers_on_three_nodes(world)
    may_start = world.play().may_start[2] = asyncio.Event()
    async with world.operator():
        await until_training(world, 0, 1)
        await (await node_of(world, 1)).notice(dialect, 0)
        await until_training(world, 0, number=2)
        may_start.set()
        await until_training(world, 0, 2, number=3)


async def test_a_node_that_is_only_considered_stays(world: World) -> None:
    await two_workers_on_three_nodes(world)
    async with world.operator():
        await until_training(world, 0, 1)
        await (await node_of(world, 0)).notice(Dialect.AUTOSCALER_CANDIDATE, 120)
        # What follows later shows what did not follow from this.
        await (await node_of(world, 1)).notice(Dialect.CORDON, 120)
        status = await until_training(world, 0, 2, number=2)
    assert status["nextWorkerId"] == 3


async def test_where_no_replacement_comes_the_world_shrinks_before_the_node_ends(
    world: World,
) -> None:
    for name in ("a", "b"):
        await add_node(world, name)
    await create_job(world, 2)
    async with world.operator():
        await until_training(world, 0, 1)
        deadline = await (await node_of(world, 1)).notice(Dialect.NTH_SPOT, 12)
        status = await until_training(world, 0, number=2, entry="Boundary")
        assert datetime.now(UTC) < deadline
        assert await _is_pending(world, 2)
    formed_at = datetime.fromisoformat(status["world"]["formedAt"])
    assert deadline - timedelta(seconds=9) < formed_at < deadline


async def test_notices_for_several_nodes_are_one_round(world: World) -> None:
    for number in range(7):
        await add_node(world, f"n{number}")
    await create_job(world, 4)
    async with world.operator():
        await until_training(world, 0, 1, 2, 3)
        machines = [await node_of(world, worker_id) for worker_id in (1, 2, 3)]
        await asyncio.gather(*(one.notice(Dialect.KARPENTER_SPOT, 120) for one in machines))
        await until_training(world, 0, 4, 5, 6, number=2)
        pool = await until_pool(world, POOL, lambda status: status["interruptions24h"] > 0)
    assert pool["status"]["interruptions24h"] == 1
    assert world.agent(0).worlds == [1, 2]


async def test_a_bulk_loss_without_a_word_is_one_loss(world: World) -> None:
    for number in range(7):
        await add_node(world, f"n{number}")
    await create_job(world, 4)
    async with world.operator():
        await until_training(world, 0, 1, 2, 3)
        machines = [await node_of(world, worker_id) for worker_id in (1, 2, 3)]
        await asyncio.gather(*(one.vanish(delete_node=True) for one in machines))
        await until_training(world, 0, 4, 5, 6)
        pool = await until_pool(world, POOL, lambda status: status["interruptions24h"] > 0)
    (one,) = pool["status"]["interruptions"]
    assert one["nodes"] == 3
    assert world.agent(0).worlds[:2] == [1, 2]


async def test_a_notice_that_comes_and_goes_does_not_churn(world: World) -> None:
    await two_workers_on_three_nodes(world)
    world.play().may_start = {worker_id: asyncio.Event() for worker_id in range(2, 20)}
    async with world.operator():
        await until_training(world, 0, 1)
        machine = await node_of(world, 1)
        for round_ in range(3):
            await machine.notice(Dialect.CORDON, 120)
            await world.until(lambda: _num_workers_is(world, 3))
            await machine.take_back_notice(Dialect.CORDON)
            if round_ == 0:  # believed at once the first time, later only when it stays calm
                await world.until(lambda: _num_workers_is(world, 2))
        status = (await world.job())["status"]
    assert status["nextWorkerId"] <= 4
    assert (status["world"]["number"], members(status)) == (1, {0, 1})


async def _on_a_node(world: World, worker_id: int) -> dict[str, object] | None:
    pods = await world.pods()
    found = [
        pod
        for pod in pods
        if pod["metadata"]["labels"]["spotrun.dev/worker-id"] == str(worker_id)
        and pod["spec"].get("nodeName")
    ]
    return found[0] if found else None


async def _is_pending(world: World, worker_id: int) -> bool:
    return (await pod_of(world, worker_id))["spec"].get("nodeName") is None


async def _num_workers_is(world: World, count: int) -> bool:
    alive = [p for p in await world.pods() if not p["metadata"].get("deletionTimestamp")]
    return len(alive) == count
