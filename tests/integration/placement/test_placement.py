"""Workers come from where the market is cheapest, and from elsewhere when it is not to be had."""

import asyncio
from typing import Any

from devcluster.client import Manifest, at
from tests.integration.spot.helpers import (
    add_node,
    create_job,
    declare_dry_spot,
    lack,
    pod_of,
    until_gone,
    until_pools,
    until_training,
)
from tests.support.cluster.operator_world import GROUP, World

SPOT = "spot-g5-xlarge-us-east-1a"
SAVED: dict[str, Any] = {"checkpoint": {"volume": {"emptyDir": {}}, "every": "1s"}}


async def until_on(world: World, worker_id: int, capacity: str) -> Manifest:
    """Wait until a worker has a node of that capacity; returns its pod."""

    async def on() -> Manifest | None:
        found = [p for p in await world.pods() if _worker_id(p) == worker_id]
        node = found[0]["spec"].get("nodeName") if found else None
        if node is None:
            return None
        labels = (await world.kube.get(f"/api/v1/nodes/{node}"))["metadata"]["labels"]
        return found[0] if labels["karpenter.sh/capacity-type"] == capacity else None

    pod: Manifest = await world.until(on)
    return pod


def _worker_id(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"]["spotrun.dev/worker-id"])


def decisions(job: Manifest) -> list[tuple[str, str]]:
    return [(one["what"], one["why"]) for one in job["status"].get("decisions", ())]


async def test_a_worker_is_asked_from_the_cheapest_pool_and_says_so(world: World) -> None:
    await add_node(world, "a", annotations={"spotrun.dev/usd-per-hour": "0.42"})
    await add_node(world, "b", capacity="on-demand")
    async with world.operator():
        await until_pools(world, 2)
        await create_job(world, 1)
        await until_training(world, 0)
        pod = await pod_of(world, 0)
        job = await world.job()
    assert pod["spec"]["nodeName"] == "a"
    assert pod["metadata"]["annotations"]["spotrun.dev/pools"] == SPOT
    assert pod["metadata"]["labels"]["spotrun.dev/capacity"] == "Spot"
    (placed,) = (why for what, why in decisions(job) if what == "Placed")
    assert placed.startswith("spot g5.xlarge us-east-1a")


async def test_a_pool_without_nodes_is_asked_and_its_first_node_is_used(world: World) -> None:
    await declare_dry_spot(world)
    async with world.operator():
        await until_pools(world, 1)
        await create_job(world, 1, placement={"capacity": "Spot"})
        await world.until_job(lambda status: "find no node" in lack(status))
        pod = await pod_of(world, 0)
        # As an autoscaler would, some time after it has seen the pod that waits.
        await add_node(world, "a", instance_type="g5.2xlarge")
        await until_training(world, 0)
    assert pod["metadata"]["annotations"]["spotrun.dev/pools"] == "dry"


async def test_where_spot_does_not_come_on_demand_takes_over(world: World) -> None:
    await declare_dry_spot(world)
    await add_node(world, "b", capacity="on-demand")
    async with world.operator():
        await until_pools(world, 2)
        await create_job(world, 1, placement={"fallbackAfter": "2s"})
        await until_on(world, 1, "on-demand")
        await until_training(world, 1)
        job = await world.job()
    assert job["status"]["settled"] == "0"
    (why,) = (why for what, why in decisions(job) if what == "Fallback")
    assert why.endswith("(no spot capacity was available for 2s)")


async def test_spot_takes_over_again_when_it_is_to_be_had(world: World) -> None:
    await declare_dry_spot(world)
    await add_node(world, "b", capacity="on-demand")
    async with world.operator():
        await until_pools(world, 2)
        await create_job(world, 1, placement={"fallbackAfter": "1s"}, **SAVED)
        await until_training(world, 1)
        await add_node(world, "a", instance_type="g5.2xlarge")
        await until_on(world, 2, "spot")
        status = await until_training(world, 2)
        await until_gone(world, 1)
    # Nothing was lost: it goes on with what the worker on demand saved last.
    assert status["world"]["restore"].startswith("step-")


async def test_of_two_jobs_that_want_the_last_node_one_gets_it_and_the_other_waits(
    world: World,
) -> None:
    await add_node(world, "a")
    async with world.operator():
        await until_pools(world, 1)
        await asyncio.gather(*(create_job(world, 1, name=name) for name in ("x", "y")))
        running = await world.until(lambda: _in_phase(world, "Running"))
        waiting = next(name for name in ("x", "y") if name not in running)
        await world.until_job(lambda s: s.get("phase") == "Pending", waiting)
        assert len(running) == 1
        await add_node(world, "b")
        await world.until_phase("Running", waiting)


async def test_a_worker_that_fits_no_node_of_any_pool_is_told_so(world: World) -> None:
    await add_node(world, "a", room={"cpu": "2"})
    async with world.operator():
        await until_pools(world, 1)
        await create_job(world, 1)
        await world.until_job(lambda status: "too few CPU" in lack(status))
        await add_node(world, "b", instance_type="g5.4xlarge")
        await until_training(world, 0)


async def _in_phase(world: World, phase: str) -> list[str]:
    jobs = [(name, await world.job(name)) for name in ("x", "y")]
    return [name for name, job in jobs if job.get("status", {}).get("phase") == phase]


async def test_a_job_waits_for_the_pools_that_it_chose_and_takes_no_other(world: World) -> None:
    await add_node(world, "a")
    async with world.operator():
        await until_pools(world, 1)
        await create_job(world, 1, placement={"poolSelector": {"matchLabels": {"tier": "cheap"}}})
        job = await world.until_job(lambda status: "no further worker is requested" in lack(status))
        assert "no CapacityPool has the labels of placement.poolSelector" in lack(job["status"])
        assert await world.pods() == []

        pool = at("capacitypools", None, SPOT, group=GROUP)
        await world.kube.patch(pool, {"metadata": {"labels": {"tier": "cheap"}}})
        await until_training(world, 0)
    assert (await pod_of(world, 0))["spec"]["nodeName"] == "a"
