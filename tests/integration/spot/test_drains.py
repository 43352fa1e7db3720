"""Somebody drains a node, or its kubelet does: in good order, and without our doing."""

import asyncio
from typing import Any

import pytest

from devcluster.client import ApiError, Manifest, at
from devcluster.platforms import Platform
from tests.integration.spot.helpers import (
    add_node,
    create_job,
    node_of,
    pod_of,
    two_workers_on_three_nodes,
    until_gone,
    until_pool,
    until_training,
)
from tests.support.cluster.operator_world import World


async def test_a_drain_waits_for_the_swap_that_its_cordon_starts(world: World) -> None:
    await two_workers_on_three_nodes(world)
    may_start = world.play().may_start[2] = asyncio.Event()
    async with world.operator():
        await until_training(world, 0, 1)
        node, pod = await node_of(world, 1), await pod_of(world, 1)
        uid = pod["metadata"]["labels"]["spotrun.dev/job-uid"]
        drain = asyncio.create_task(asyncio.to_thread(_drain, world, node.name, uid))
        try:
            await world.until(lambda: _exists(world, 2))
            with pytest.raises(ApiError, match="disruption budget") as refused:
                await _evict(world, pod)
            assert refused.value.status == 429
            may_start.set()
            await until_training(world, 0, 2, number=2, entry="Boundary")
            await until_gone(world, 1)
        finally:
            ended = await drain
    assert ended.returncode == 0, ended.stderr
    assert world.agent(0).worlds == [1, 2]


async def test_a_spot_node_whose_kubelet_shuts_down_in_order_was_taken_back(world: World) -> None:
    for name in ("a", "b", "c"):
        await add_node(world, name, platform=Platform.GKE)
    await create_job(world, 2)
    async with world.operator():
        await until_training(world, 0, 1)
        await (await node_of(world, 1)).shut_down(15)
        await until_training(world, 0, 2)
        job = await world.until_job(lambda s: s.get("interruptions", {}).get("count") == 1)
        pool = "spot-g5-xlarge-us-east-1a"
        found = await until_pool(world, pool, lambda s: s.get("interruptions24h", 0) > 0)
    assert job["status"]["interruptions"]["last"]["reason"] == "Reclaimed"
    assert "restarts" not in job["status"], "it counts as no failure"
    assert found["status"]["interruptions24h"] == 1


def _drain(world: World, node: str, uid: str) -> Any:
    # Of this job alone: a worker of another test may have been bound to a node of that name.
    own = f"--pod-selector=spotrun.dev/job-uid={uid}"
    flags = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s", own)
    return world.cluster.kubectl("drain", node, *flags, check=False)


async def _evict(world: World, pod: Manifest) -> None:
    name = pod["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": world.namespace},
    }
    await world.kube.create(at("pods", world.namespace, name, "eviction"), eviction)


async def _exists(world: World, worker_id: int) -> bool:
    found = [pod["metadata"]["labels"]["spotrun.dev/worker-id"] for pod in await world.pods()]
    return str(worker_id) in found
