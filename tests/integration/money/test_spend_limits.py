import asyncio
from decimal import Decimal
from typing import Any

import pytest

from devcluster.client import ApiError, Manifest, at
from tests.integration.money.helpers import ROOM, workers
from tests.support.cluster.operator_world import GROUP, World

# A worker costs $9 an hour. To start, a job of one needs ten minutes of it and its end, 1.2 times
# what 780 s cost: $2.34.
TWO_FIT = "5"


async def add_priced_node(world: World) -> None:
    """A node for four workers, in a pool whose price is known before anybody runs there."""
    labels = {"node.kubernetes.io/instance-type": "g5.xl"}
    await world.nodes.add("a", capacity=ROOM, labels=labels)
    pool = {
        "apiVersion": GROUP,
        "kind": "CapacityPool",
        "metadata": {"name": "g5"},
        "spec": {"instanceTypes": ["g5.xl"], "capacity": "OnDemand", "usdPerHour": "36"},
    }
    await world.kube.create(at("capacitypools", group=GROUP), pool)


async def until_limit(world: World, holds: Any) -> Manifest:
    """Wait until the limit's status satisfies a predicate; return the status."""

    async def look() -> Manifest | None:
        found = await world.kube.get(world.limits("team"))
        status: Manifest = found.get("status", {})
        return status if status and holds(status) else None

    status: Manifest = await world.until(look)
    return status


async def phases(world: World) -> dict[str, str]:
    jobs = await world.kube.list(world.jobs())
    return {job["metadata"]["name"]: job.get("status", {}).get("phase", "") for job in jobs}


async def test_jobs_that_start_together_share_what_a_limit_has(world: World) -> None:
    """Of four jobs two fit; a deleted one stays counted; a raised limit lets the others start."""
    await add_priced_node(world)
    await world.create_limit(limitUsd=TWO_FIT, period="Month")
    async with world.operator():
        names = [f"job-{number}" for number in range(4)]
        await asyncio.gather(*(world.create_job(name, workers=workers(1)) for name in names))
        status = await until_limit(world, lambda s: s["jobs"].get("held") == 2)

        async def two_run() -> list[str] | None:
            found = await phases(world)
            running = sorted(name for name in names if found[name] == "Running")
            return running if len(running) == 2 else None

        first, _ = await world.until(two_run)
        held = status["heldJobs"]
        assert sorted({*names} - {*held}) == await two_run()
        job = await world.until_phase("Suspended", held[0])
        said = job["status"]
        assert (said["reason"], said["suspendedBy"]) == ("SpendLimited", ["SpendLimit"])
        assert "the smallest useful piece of this job needs $2.34" in said["message"]
        assert "raise limitUsd, or wait until" in said["message"]
        assert said["decisions"][-1]["what"] == "Hold"
        assert not await world.pods(held[0])
        running = await world.job(first)
        assert running["metadata"]["finalizers"] == ["spotrun.dev/spend"]

        await world.until_job(lambda s: Decimal(s["cost"].get("usd", "0")) > 0, first)
        await world.kube.delete(world.jobs(first))
        await until_limit(world, lambda s: Decimal(s["deletedUsd"]) > 0)
        await world.kube.until(world.jobs(), first, lambda one: one is None)
        status = await until_limit(world, lambda s: not s.get("closing"))
        assert Decimal(status["spentUsd"]) >= Decimal(status["deletedUsd"]) > 0

        await world.kube.patch(world.limits("team"), {"spec": {"limitUsd": "50"}})
        for name in held:
            job = await world.until_phase("Running", name)
            assert "Start" in [one["what"] for one in job["status"]["decisions"]]
        status = await until_limit(world, lambda s: s["jobs"].get("running") == 3)
        assert "heldJobs" not in status
        # Another replica goes on from statuses alone.
    async with world.operator():
        again = await until_limit(world, lambda s: s["jobs"].get("running") == 3)
        assert again["deletedUsd"] == status["deletedUsd"]
        await world.kube.delete(world.limits("team"))

        async def is_free() -> bool:
            jobs = await world.kube.list(world.jobs())
            return not any(job["metadata"].get("finalizers") for job in jobs)

        await world.until(is_free)


async def test_a_limit_that_suspends_stops_a_job_after_its_checkpoint(world: World) -> None:
    await add_priced_node(world)
    kept = {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}}
    # Its end alone is reckoned at $0.87, and ten minutes at $1.80.
    await world.create_limit(limitUsd="2.69", onExceeded="Suspend", period="Total")
    async with world.operator():
        await world.create_job(workers=workers(1), checkpoint=kept)
        await world.until_phase("Running")
        await world.kube.patch(world.limits("team"), {"spec": {"limitUsd": "0.88"}})
        job = await world.until_phase("Suspended")
        assert job["status"]["reason"] == "SpendLimited"
        assert "this job was the cheapest to stop" in job["status"]["message"]
        await world.until_no_pods()
        job = await world.job()
        assert job["status"]["checkpoint"]["name"] == "step-100.g1"
        status = await until_limit(world, lambda s: s["jobs"].get("suspended") == 1)
        assert status["suspendedJobs"] == ["job"]
        assert Decimal(status["spentUsd"]) <= Decimal("0.88")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"limitUsd": "0"}, "must be a decimal number above 0"),
        ({"limitUsd": "5", "selector": {"matchLabels": {"app": "x"}}}, "team, cost-center and"),
        ({"limitUsd": "5", "warnAtPercent": 101}, "should be less than or equal to 100"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    world: World, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(ApiError, match=words):
        await world.create_limit(**spec)
