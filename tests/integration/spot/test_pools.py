"""Pools: found on nodes, declared by admins, shown by kubectl."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from devcluster.client import Manifest, at
from devcluster.platforms import Platform
from tests.integration.spot.helpers import (
    POOLS,
    add_node,
    create_job,
    declare,
    lack,
    until_pool,
    until_training,
)
from tests.support.api.kubectl_tables import only_row
from tests.support.cluster.operator_world import GROUP, World

NEIGHBOUR = "neighbour"


async def test_pools_are_found_in_every_dialect(world: World) -> None:
    platforms = set(Platform) - {Platform.PLAIN}
    for platform in platforms:
        of: dict[str, Any] = {"platform": platform, "instance_type": f"{platform}.large"}
        await add_node(world, f"{platform}-1", **of)
        await add_node(world, f"{platform}-2", capacity="on-demand", zone="us-east-1b", **of)
    async with world.operator():
        for platform in platforms:
            spot = await until_pool(
                world, f"spot-{platform}-large-us-east-1a", lambda status: status["nodes"] == 1
            )
            assert spot["spec"]["capacity"] == "Spot"
            assert spot["spec"]["region"] == "us-east-1"
            other = await until_pool(
                world,
                f"on-demand-{platform}-large-us-east-1b",
                lambda status: status["nodes"] == 1,
            )
            assert other["spec"]["capacity"] == "OnDemand"


async def test_kubectl_shows_the_market_in_one_line_a_pool(alone: World) -> None:
    await add_node(alone, "a")
    await add_node(alone, "b")
    await create_job(alone, 1)
    async with alone.operator(watch_namespace=None):
        await until_training(alone, 0)
        await until_pool(alone, "spot-g5-xlarge-us-east-1a", lambda s: s["workers"] == 1)
    table = alone.cluster.kubectl("get", "cpool", "-l", "spotrun.dev/capacity=Spot").stdout
    shown = only_row(table)
    assert shown == {
        "NAME": "spot-g5-xlarge-us-east-1a",
        "INSTANCE": "g5.xlarge",
        "ZONE": "us-east-1a",
        "CAPACITY": "Spot",
        "$/HR": shown["$/HR"],
        "NODES": "2",
        "WORKERS": "1",
        "AVAILABLE": "Unknown",
        "INTERRUPTIONS/24H": "0",
        "AGE": shown["AGE"],
        "UNPRICED": "kubectl patch cpool spot-g5-xlarge-us-east-1a --type=merge "
        """-p '{"spec":{"usdPerHour":"<USD>"}}'""",
    }


async def test_a_declared_pool_has_no_node_yet_and_takes_in_those_that_come(world: World) -> None:
    await declare(
        world,
        "any-a10g",
        instanceTypes=["g5.xlarge", "g5.2xlarge"],
        zones=["us-east-1a", "us-east-1b"],
        capacity="Spot",
        usdPerHour="0.42",
    )
    async with world.operator():
        pool = await until_pool(world, "any-a10g", lambda status: status["nodes"] == 0)
        assert pool["status"]["types"] == "g5.xlarge,g5.2xlarge"
        assert pool["status"]["price"]["usdPerHour"] == "0.42"
        await add_node(world, "a", zone="us-east-1b")
        await until_pool(world, "any-a10g", lambda status: status["nodes"] == 1)
        pools = await world.kube.list(POOLS)
        assert [pool["metadata"]["name"] for pool in pools] == ["any-a10g"]
        # Without it the node is in the pool that is found for it.
        await world.kube.delete(at("capacitypools", None, "any-a10g", group=GROUP))
        await until_pool(world, "spot-g5-xlarge-us-east-1b", lambda s: s["nodes"] == 1)


async def test_an_admins_pool_says_of_nodes_what_their_labels_do_not(world: World) -> None:
    await declare(world, "cheap", nodeSelector={"example.com/pool": "cheap"}, capacity="Spot")
    await add_node(world, "a", platform=Platform.PLAIN, labels={"example.com/pool": "cheap"})
    await create_job(world, 1)
    async with world.operator():
        await until_training(world, 0)
        await until_pool(world, "cheap", lambda s: s["nodes"] == 1)
        await world.until_job(lambda status: status["workers"].get("spot") == 1)


async def test_nodes_of_no_known_type_are_in_no_pool(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 2, "max": 2, "replicas": 2})
    async with world.operator():
        await world.until_phase("Running")
        assert await world.kube.list(POOLS) == []


@pytest.fixture
async def asks_the_impossible(alone: World) -> AsyncIterator[None]:
    """Another tenant's job, of a higher priority, that fits no node."""
    await alone.kube.create(at("namespaces"), {"metadata": {"name": NEIGHBOUR}})
    resources = {"requests": {"cpu": "1000"}}
    container = {"name": "trainer", "image": "x", "args": ["t.py"], "resources": resources}
    body: dict[str, Any] = {
        "apiVersion": GROUP,
        "kind": "TrainingJob",
        "metadata": {"name": "huge"},
        "spec": {"priority": 10, "workers": {"template": {"spec": {"containers": [container]}}}},
    }
    await alone.kube.create(at("trainingjobs", NEIGHBOUR, group=GROUP), body)
    yield
    await alone.kube.delete(at("namespaces", None, NEIGHBOUR))


@pytest.mark.usefixtures("asks_the_impossible")
async def test_what_one_tenant_asks_in_vain_is_no_matter_of_the_others(alone: World) -> None:
    for name in ("a", "b"):
        await add_node(alone, name)
    async with alone.operator(watch_namespace=None):
        await alone.until(lambda: _lacks_cpu(alone))
        await create_job(alone, 2, smallest=2)
        await until_training(alone, 0, 1)
        name = "spot-g5-xlarge-us-east-1a"
        pool = await until_pool(alone, name, lambda status: status["workers"] == 2)
    assert pool["status"]["available"] != "False"
    assert "retryAt" not in pool["status"]


async def _lacks_cpu(world: World) -> Manifest | None:
    huge = await world.kube.get(at("trainingjobs", NEIGHBOUR, "huge", group=GROUP))
    return huge if "too few CPU" in lack(huge.get("status", {})) else None
