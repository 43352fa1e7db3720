"""Nodes of a market, and what is asked of CapacityPools."""

from collections.abc import Callable
from typing import Any

from devcluster.client import Manifest, at
from devcluster.nodes import Machine
from devcluster.platforms import Capacity, Platform, pool_labels
from spotrun.api.field_types.text_values import WorkerIds
from tests.support.cluster.operator_world import GROUP, World

ROOM = {"cpu": "8", "memory": "32Gi"}
POOLS = at("capacitypools", group=GROUP)


async def add_node(
    world: World,
    name: str,
    *,
    platform: Platform = Platform.KARPENTER,
    capacity: Capacity = "spot",
    zone: str = "us-east-1a",
    instance_type: str = "g5.xlarge",
    **node: Any,
) -> Machine:
    """A node as a platform makes it."""
    marks = pool_labels(platform, capacity=capacity, zone=zone, instance_type=instance_type)
    return await world.nodes.add(
        name,
        labels={**marks.labels, **node.pop("labels", {})},
        taints=marks.taints,
        capacity={**ROOM, **node.pop("room", {})},
        **node,
    )


async def until_pool(world: World, name: str, holds: Callable[[Manifest], bool]) -> Manifest:
    """Wait until a pool's status satisfies a predicate; returns the pool."""

    def on(pool: Manifest | None) -> bool:
        return pool is not None and "status" in pool and holds(pool["status"])

    found = await world.kube.until(POOLS, name, on, timeout_seconds=90)
    assert found is not None
    return found


async def until_pools(world: World, number: int) -> None:
    """Wait until so many pools are known, which takes a moment after the nodes are there."""

    async def known() -> bool:
        return len(await world.kube.list(POOLS)) >= number

    await world.until(known)


def lack(status: Manifest) -> str:
    """Return what a job's status says of capacity."""
    found = (c["message"] for c in status.get("conditions", ()) if c["type"] == "CapacityAvailable")
    return str(next(found, ""))


async def declare(world: World, name: str, **spec: Any) -> Manifest:
    """Create a CapacityPool, as an admin does."""
    body = {
        "apiVersion": GROUP,
        "kind": "CapacityPool",
        "metadata": {"name": name},
        "spec": spec,
    }
    return await world.kube.create(POOLS, body)


async def declare_dry_spot(world: World) -> None:
    """Spot capacity that somebody says there is, and of which no node ever comes."""
    await declare(
        world,
        "dry",
        capacity="Spot",
        instanceTypes=["g5.2xlarge"],
        zones=["us-east-1a"],
        nodeSelector={"karpenter.sh/capacity-type": "spot"},
        usdPerHour="0.10",
    )


ONE_PER_NODE = {"requests": {"cpu": "5"}}


async def create_job(
    world: World,
    size: int,
    *,
    name: str = "job",
    smallest: int = 1,
    largest: int | None = None,
    **spec: Any,
) -> Manifest:
    """A job whose workers need a node each."""
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ONE_PER_NODE}
    workers = {
        "min": smallest,
        "max": largest or size,
        "replicas": size,
        "template": {"spec": {"containers": [container]}},
    }
    return await world.create_job(name, workers=workers, **spec)


async def two_workers_on_three_nodes(world: World) -> None:
    """A job for which the market has a node to spare."""
    for name in ("a", "b", "c"):
        await add_node(world, name)
    await create_job(world, 2)


async def until_training(world: World, *worker_ids: int, **expected: Any) -> Manifest:
    """Wait until just these workers train, and have all come together; returns the status."""

    async def on() -> Manifest | None:
        status = (await world.job()).get("status", {})
        if members(status) != set(worker_ids) or not status["world"]["active"]:
            return None
        agents = [world.play().agents.get(worker_id) for worker_id in worker_ids]
        arrived = {one is not None and one.report.arrived for one in agents}
        return dict(status) if arrived == {status["world"]["number"]} else None

    status: Manifest = await world.until(on)
    assert {key: status["world"][key] for key in expected} == expected
    return status


def members(status: Manifest) -> set[int]:
    """The members of the present world; in which order of ranks is of no interest here."""
    text = status.get("world", {}).get("members", "")
    return set(WorkerIds(text).numbers)


async def node_of(world: World, worker_id: int) -> Machine:
    """The machine on which a worker runs."""
    return world.nodes[(await pod_of(world, worker_id))["spec"]["nodeName"]]


async def pod_of(world: World, worker_id: int) -> Manifest:
    """A worker's pod."""
    (pod,) = (
        pod
        for pod in await world.pods()
        if pod["metadata"]["labels"]["spotrun.dev/worker-id"] == str(worker_id)
    )
    return pod


async def until_gone(world: World, worker_id: int) -> None:
    """Wait until a worker's pod is no more."""

    async def gone() -> bool:
        worker_ids = [
            pod["metadata"]["labels"]["spotrun.dev/worker-id"] for pod in await world.pods()
        ]
        return str(worker_id) not in worker_ids

    await world.until(gone)
