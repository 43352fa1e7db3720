"""Whether a world may span zones, by what its workers were measured to send to each other."""

from typing import Any

from tests.integration.spot.helpers import (
    add_node,
    create_job,
    lack,
    node_of,
    pod_of,
    until_pools,
    until_training,
)
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times

MEGABYTE = 10**6
HOME, FAR = "us-east-1a", "us-east-1b"


async def trains_with_gradients_of(world: World, size_bytes: int) -> None:
    """Two train in one zone; then a third is wanted, for which only the other zone has room."""
    for name in ("a", "b"):
        await _add(world, name, HOME, "0.40")
    await _add(world, "od", HOME, "1.01", capacity="on-demand", room={"cpu": "6"})
    play = world.play()
    play.step_times, play.sync_bytes = lambda _: Times(1.0), size_bytes


async def _grow(world: World) -> None:
    await until_pools(world, 2)
    await create_job(world, 2, largest=3)
    await until_training(world, 0, 1)
    await world.until_job(lambda status: "stepSeconds" in status.get("pace", {}))
    await _add(world, "c", FAR, "0.32")
    await until_pools(world, 3)
    await world.patch_job({"workers": {"replicas": 3}})


async def test_with_100_mb_a_world_stays_in_its_zone_and_says_why(world: World) -> None:
    await trains_with_gradients_of(world, 100 * MEGABYTE)
    async with world.operator():
        await _grow(world)
        job = await world.until_job(lambda status: "find no node" in lack(status))
        pod = await pod_of(world, 2)
    words = lack(job["status"])
    assert f"spot g5.xlarge {FAR} has room at $0.13/h, but $" in words
    assert "of traffic between zones would make it more expensive than on-demand" in words
    assert words.endswith("on-demand after 10m without spot (placement.fallbackAfter)")
    assert pod["metadata"]["annotations"]["spotrun.dev/pools"] == f"spot-g5-xlarge-{HOME}"


async def test_with_1_mb_it_takes_the_cheaper_node_in_the_other_zone(world: World) -> None:
    await trains_with_gradients_of(world, MEGABYTE)
    async with world.operator():
        await _grow(world)
        await until_training(world, 0, 1, 2)
        assert (await node_of(world, 2)).name == "c"


async def _add(world: World, name: str, zone: str, usd_per_hour: str, **node: Any) -> None:
    price = {"spotrun.dev/usd-per-hour": usd_per_hour}
    await add_node(world, name, zone=zone, annotations=price, **node)
