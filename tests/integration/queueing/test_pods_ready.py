"""Jobs under a Kueue that waits for pods, and takes back the quota of those that are not ready."""

from collections.abc import AsyncIterator, Iterator

import pytest

from devcluster.cluster import Cluster
from devcluster.kueue.server import kueue
from tests.integration.queueing.helpers import CPU, SPOT, create_job, holds, make_queue, workloads
from tests.support.cluster.operator_world import World, open_world

WAITS = {
    "timeout": "4s",
    "recoveryTimeout": "4s",
    "requeuingStrategy": {"backoffBaseSeconds": 1},
}


@pytest.fixture(scope="module")
def waiting_cluster(
    empty_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kueue")
    with kueue(empty_cluster, folder, settings={"waitForPodsReady": WAITS}):
        yield empty_cluster


@pytest.fixture
async def short(waiting_cluster: Cluster) -> AsyncIterator[World]:
    """A queue with quota for eight workers, and nodes for two."""
    async with open_world(waiting_cluster) as world:
        await world.nodes.add("a", capacity={**CPU, "cpu": "2"}, labels=SPOT)
        await make_queue(world, cpus=8)
        yield world


async def test_kueue_takes_back_a_growth_without_nodes_and_the_job_trains_on(short: World) -> None:
    async with short.operator(kueue=True):
        await create_job(short, "job", 2, 2)
        await short.until_phase("Running")
        await short.until(lambda: is_ready(short, "job"))
        await short.patch_job({"workers": {"replicas": 3}})

        async def is_taken_back() -> bool:
            return any(holds(one, "Evicted") for one in await workloads(short))

        await short.until(is_taken_back)
        assert (await short.job())["status"]["phase"] == "Running"
        assert await is_ready(short, "job")


async def test_a_job_that_loses_its_world_has_the_time_of_a_recovery(short: World) -> None:
    async with short.operator(kueue=True):
        await create_job(short, "job", 2, 2)
        await short.until_phase("Running")
        await short.until(lambda: is_ready(short, "job"))
        await short.nodes.remove("a")
        await short.until_job(lambda s: "not ready within Kueue's timeout" in s.get("message", ""))
        (one,) = await workloads(short)
        assert not await is_ready(short, "job")
        assert holds(one, "Evicted")
        await short.nodes.add("b", capacity=CPU, labels=SPOT)
        await short.until_phase("Running")


async def is_ready(world: World, job: str) -> bool:
    """Whether Kueue was told that the smallest world of a job is ready."""
    first, *_ = sorted(await workloads(world, job), key=lambda one: str(one["metadata"]["name"]))
    return holds(first, "PodsReady")
