"""A worker whose pod vanishes: somebody takes its finalizers off and deletes it by force.

What the operator says of the job at any moment is compared with the meter. Of a worker that went
while no operator watched, what was said last stays.
"""

import asyncio

from devcluster.client import at
from devcluster.cluster import Cluster
from spotrun.kube.tasks import running
from tests.meter.dead_node import Death, Looks, begin, compared
from tests.meter.lives import is_settled
from tests.meter.meter import metered
from tests.support.cluster.operator_world import World, open_world


async def vanish(cluster: Cluster, *, is_watched: bool, seconds: float = 5.0) -> Death:
    """Let one of two pods vanish, while an operator watches or between two of them."""
    async with open_world(cluster) as world, metered(world.kube, world.namespace) as meter:
        looks = Looks(world)
        async with running(looks.look()):
            async with world.operator():
                await begin(world)
                await asyncio.sleep(seconds)
                if is_watched:
                    await _strip(world, 1)
                    await world.until_job(lambda s: s.get("settled") == "1")
            if not is_watched:
                await _strip(world, 1)
                await asyncio.sleep(seconds)
            async with world.operator():
                await world.until_job(lambda s: s.get("settled") == "1")
                await asyncio.sleep(seconds)
                world.play().may_finish.set()
                final = await world.until_job(is_settled)
                await meter.has_seen_all_ends("job")
                return compared(looks.costs, meter, final["status"])


async def _strip(world: World, worker_id: int) -> None:
    """Take a worker's pod away, whoever holds it."""
    pod = (await world.pods())[worker_id]["metadata"]["name"]
    path = at("pods", world.namespace, pod)
    await world.kube.patch(path, {"metadata": {"finalizers": None}})
    await world.kube.delete(path, grace_seconds=0)
