"""Stories of a job on a market that takes nodes away, told by what must come to be.

They read the same whether or not the operator is killed in the middle.
"""

import asyncio
from typing import Any

from devcluster.client import ApiError, at
from devcluster.notices import Dialect
from tests.integration.spot.helpers import (
    add_node,
    create_job,
    declare_dry_spot,
    lack,
    node_of,
    until_gone,
    until_pools,
)
from tests.meter.meter import PRICE
from tests.plans.scenarios import Stage
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times

SPOT_USD_PER_HOUR, ON_DEMAND_USD_PER_HOUR = "0.50", "1.00"
"""The prices of a node: spot that costs as much as on-demand would be left alone."""
ON_DEMAND = ("c", "d")


async def swapped(stage: Stage) -> None:
    """A node says that it goes; its worker trains until the replacement is there."""
    await _nodes(stage.world, 3)
    await create_job(stage.world, 2)
    await stage.trains(0, 1)
    async with stage.trouble():
        await (await node_of(stage.world, 1)).notice(Dialect.NTH_SPOT, 120)
        await stage.trains(0, 2)
    await until_gone(stage.world, 1)
    await _finish(stage)


async def shrunk(stage: Stage) -> None:
    """A node says that it goes, and there is no other."""
    await _nodes(stage.world, 2)
    await create_job(stage.world, 2)
    await stage.trains(0, 1)
    async with stage.trouble():
        await (await node_of(stage.world, 1)).notice(Dialect.NTH_SPOT, 20)
        await stage.trains(0)
    await _finish(stage)


async def lost_together(stage: Stage) -> None:
    """Three machines of four go at once, without a word."""
    await _nodes(stage.world, 7)
    await create_job(stage.world, 4)
    await stage.trains(0, 1, 2, 3)
    async with stage.trouble():
        await _lose(stage, 1, 2, 3)
        await stage.trains(0, 4, 5, 6)
    await _collect(stage)
    await _finish(stage)


async def all_lost(stage: Stage) -> None:
    """Lose all workers, so that nobody is left who could go on."""
    await _nodes(stage.world, 6)
    await create_job(stage.world, 3, smallest=3)
    await stage.trains(0, 1, 2)
    async with stage.trouble():
        await _lose(stage, 0, 1, 2)
        await stage.trains(3, 4, 5)
    await _collect(stage)
    await _finish(stage)


async def lost_while_it_grows(stage: Stage) -> None:
    """A machine goes while a joining worker is getting warm for a larger world."""
    world = stage.world
    await _nodes(world, 4)
    await create_job(world, 2, largest=3)
    await stage.trains(0, 1)
    warm = asyncio.Event()  # else a replacement could be there before the smaller world is seen
    world.play().may_start = dict.fromkeys(range(2, 20), warm)
    await world.patch_job({"workers": {"replicas": 3}})
    await world.until(lambda: _runs(world, 2))
    async with stage.trouble():
        await _lose(stage, 1)
        await stage.trains(0)
        warm.set()
        await stage.trains(0, 2, 3)
    await _collect(stage)
    await _finish(stage)


async def lost_while_it_recovers(stage: Stage) -> None:
    """Another machine goes while the replacement of the first is getting warm."""
    world = stage.world
    await _nodes(world, 5)
    await create_job(world, 3, smallest=3)
    await stage.trains(0, 1, 2)
    warm = world.play().may_start[3] = asyncio.Event()
    async with stage.trouble():
        await _lose(stage, 1)
        await world.until(lambda: _runs(world, 3))
        await _lose(stage, 2)
        warm.set()
        await stage.trains(0, 3, 4)
    await _collect(stage)
    await _finish(stage)


async def lost_while_it_saves(stage: Stage) -> None:
    """The machine that is to be left goes before what it holds is saved."""
    world = stage.world
    await _nodes(world, 2)
    await create_job(world, 1, checkpoint={"volume": {"emptyDir": {}}})
    await stage.trains(0)
    world.play().may_save = False
    async with stage.trouble():
        await (await node_of(world, 0)).notice(Dialect.NTH_SPOT, 120)
        await world.until_job(lambda status: "checkpoint" in status.get("orders", {}))
        await world.until(lambda: _runs(world, 1))
        await _lose(stage, 0)
        world.play().may_save = True
        await stage.trains(1)
    await _collect(stage)
    await _finish(stage)


async def waited(stage: Stage) -> None:
    """Another job has the last node, and this one gets it when that is done."""
    world = stage.world
    await _nodes(world, 1)
    await create_job(world, 1, name="other")
    await world.until_phase("Running", "other")
    async with stage.trouble():
        await create_job(world, 1)
        await world.until_job(lambda status: "find no node" in lack(status))
        world.play("other").may_finish.set()
        await stage.trains(0)
    await _finish(stage)


async def wavering(stage: Stage) -> None:
    """A notice comes and goes; nobody moves."""
    world = stage.world
    await _nodes(world, 3)
    starts = world.play().may_start = {worker_id: asyncio.Event() for worker_id in range(2, 20)}
    await create_job(world, 2)
    await stage.trains(0, 1)
    async with stage.trouble():
        machine = await node_of(world, 1)
        for _ in range(2):
            await machine.notice(Dialect.CORDON, 120)
            await world.until(lambda: _has_more_than(world, 2))
            await machine.take_back_notice(Dialect.CORDON)
    await _last_a_second()
    world.play().may_finish.set()
    await world.until_phase("Succeeded")
    for start in starts.values():
        start.set()
    await stage.all_settled()


async def fell_back(stage: Stage) -> None:
    """Spot does not come, so on-demand takes over."""
    await _dry_spot_and_on_demand(stage.world)
    stage.doomed.add(0)
    async with stage.trouble():
        await create_job(stage.world, 1, placement={"fallbackAfter": "2s"})
        await stage.trains(1)
    await _finish(stage)


async def came_back(stage: Stage) -> None:
    """Spot comes after all, and takes over from on-demand."""
    await _dry_spot_and_on_demand(stage.world)
    saved: dict[str, Any] = {"volume": {"emptyDir": {}}, "every": "1s"}
    stage.doomed.add(0)
    await create_job(stage.world, 1, placement={"fallbackAfter": "1s"}, checkpoint=saved)
    await stage.trains(1)
    # How long a changeover takes says how long a launch takes to pay off.
    await stage.world.until_job(lambda status: "changeovers" in status.get("pace", {}))
    async with stage.trouble():
        price = {PRICE: SPOT_USD_PER_HOUR}
        await add_node(stage.world, "a", instance_type="g5.2xlarge", annotations=price)
        await stage.trains(2)
    await until_gone(stage.world, 1)
    await _finish(stage)


async def base_kept(stage: Stage) -> None:
    """The one worker on on-demand is lost, and its like replaces it."""
    world = stage.world
    await _two_spot_and_two_on_demand(world)
    await create_job(world, 2, placement={"onDemandBase": 1})
    await stage.trains(0, 1)
    assert (await node_of(world, 0)).name in ON_DEMAND, "rank 0 is one of them"
    async with stage.trouble():
        await _lose(stage, 0)
        await stage.trains(1, 2)
    await world.until_job(lambda s: (s["workers"]["onDemand"], s["workers"]["spot"]) == (1, 1))
    assert (await node_of(world, 2)).name in ON_DEMAND
    await _collect(stage)
    await _finish(stage)


async def hurried(stage: Stage) -> None:
    """The deadline leaves no time to lose a spot worker, so all move to on-demand and stay."""
    world = stage.world
    await _two_spot_and_two_on_demand(world)
    world.play().step_times = lambda _: Times(1.0)
    deadline = {"finishWithin": "1h", "onMissed": "OnDemand"}  # a million steps of a second
    await create_job(world, 2, deadline=deadline)
    await stage.trains(0, 1)
    async with stage.trouble():
        await stage.trains(2, 3)
    job = await world.until_job(lambda s: s["workers"]["onDemand"] == 2)
    stated = {c["type"]: (c["status"], c["reason"]) for c in job["status"]["conditions"]}
    assert stated["OnSchedule"] == ("False", "DeadlineAtRisk")
    await _finish(stage)


async def _finish(stage: Stage) -> None:
    await _last_a_second()
    await stage.finish()


async def _last_a_second() -> None:
    """Kubernetes tells the times of pods in whole seconds: who lasts none has cost nothing."""
    await asyncio.sleep(1.2)


async def _nodes(world: World, number: int) -> None:
    price = {PRICE: SPOT_USD_PER_HOUR}
    for n in range(number):
        await add_node(world, f"n{n}", annotations=price)


async def _on_demand(world: World, *names: str) -> None:
    price = {PRICE: ON_DEMAND_USD_PER_HOUR}
    for name in names:
        await add_node(world, name, capacity="on-demand", annotations=price)


async def _two_spot_and_two_on_demand(world: World) -> None:
    await _nodes(world, 2)
    await _on_demand(world, *ON_DEMAND)
    await until_pools(world, 2)


async def _dry_spot_and_on_demand(world: World) -> None:
    await declare_dry_spot(world)
    await _on_demand(world, "b")
    await until_pools(world, 2)


async def _lose(stage: Stage, *worker_ids: int) -> None:
    """Take their machines away at once, their Node objects too."""
    stage.doomed.update(worker_ids)
    machines = [await node_of(stage.world, worker_id) for worker_id in worker_ids]
    await asyncio.gather(*(machine.vanish(delete_node=True) for machine in machines))


async def _collect(stage: Stage) -> None:
    """Delete the pods of nodes that are gone, as Kubernetes' pod collector does after a minute."""
    for pod in await stage.world.pods():
        meta = pod["metadata"]
        if int(meta["labels"]["spotrun.dev/worker-id"]) in stage.doomed:
            try:
                path = at("pods", stage.world.namespace, meta["name"])
                await stage.world.kube.delete(path, grace_seconds=0)
            except ApiError as error:
                if error.status != 404:
                    raise


async def _runs(world: World, worker_id: int) -> bool:
    for pod in await world.pods():
        if pod["metadata"]["labels"]["spotrun.dev/worker-id"] == str(worker_id):
            return bool(pod["status"].get("phase") == "Running")
    return False


async def _has_more_than(world: World, number: int) -> bool:
    alive = [pod for pod in await world.pods() if not pod["metadata"].get("deletionTimestamp")]
    return len(alive) > number
