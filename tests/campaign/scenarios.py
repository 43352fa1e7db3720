"""Five lives of a job, told by sizes: they read the same whoever is lost on the way."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp

from devcluster.client import Manifest, at
from tests.meter.meter import PRICE
from tests.plans.safety import numbers
from tests.plans.scenarios import Stage

USD_PER_HOUR = 3600
"""A second of a whole node costs a dollar, so that a cent is 10 ms of it."""
NODES = ("a", "b", "c")
_ROOM = {"cpu": "8", "memory": "32Gi"}
_ASKED = {"requests": {"cpu": "1", "memory": "1Gi"}}
_PATIENT = {"maxRestarts": 1000}
_FIRST_REPLACEMENT = 3


def node_name(stage: Stage, letter: str) -> str:
    """Return the name of a node of this scenario alone: nodes have no namespace."""
    return f"{stage.world.namespace}-{letter}"


async def add_node(stage: Stage, letter: str) -> None:
    """Add a node that only this scenario's pods go to."""
    name = node_name(stage, letter)

    async def added() -> bool:
        nodes = stage.world.nodes
        try:
            if nodes.get(name) is not None:  # it was registered, and not heard of as ready
                await nodes.remove(name)
            await nodes.add(
                name,
                labels={"campaign": stage.world.namespace},
                annotations={PRICE: str(USD_PER_HOUR)},
                capacity=_ROOM,
            )
        except aiohttp.ClientError:  # the API server is away
            return False
        return True

    await stage.world.until(added)


async def begin(stage: Stage, smallest: int, replicas: int, **spec: Any) -> None:
    """Make nodes and a job."""
    # Who is taken back in a shrink depends on who shares a node: with one node on nothing.
    letters = NODES[:1] if stage.is_exact else NODES
    await asyncio.gather(*(add_node(stage, letter) for letter in letters))
    container = {"name": "trainer", "image": "x", "args": ["t.py"], "resources": _ASKED}
    selector = {"campaign": stage.world.namespace}
    template = {"spec": {"nodeSelector": selector, "containers": [container]}}
    workers = {"min": smallest, "max": 3, "replicas": replicas, "template": template}
    await stage.world.create_job(workers=workers, failures=_PATIENT, **spec)


async def live_another(stage: Stage, is_seen: Callable[[str], Awaitable[bool]]) -> None:
    """Make a second job, have it run, and delete it: the operator still does its work.

    `is_seen` says whether whoever judges has heard of it, and is asked before there are workers.
    """
    world, name = stage.world, "another"
    selector = {"campaign": world.namespace}
    await add_node(stage, name)
    container = {"name": "trainer", "image": "x", "args": ["t.py"], "resources": _ASKED}
    template = {"spec": {"nodeSelector": selector, "containers": [container]}}
    await world.create_job(name, workers={"template": template}, suspend=True)
    await world.until(lambda: is_seen(name))
    await world.patch_job({"suspend": False}, name)
    await world.until_phase("Running", name)
    await world.kube.delete(world.jobs(name))
    await world.until_no_pods(name)


async def trained(stage: Stage, size: int) -> None:
    """Wait until so many workers train together, all of them in the newest world."""

    async def trains() -> bool:
        status: Manifest = (await stage.world.job()).get("status", {})
        world = status.get("world") or {}
        members = numbers(world.get("members"))
        agents = stage.world.play().agents
        is_there = all(n in agents and agents[n].report.arrived >= world["number"] for n in members)
        return bool(world.get("active")) and len(members) == size and is_there

    await stage.world.until(trains)


async def create(stage: Stage) -> None:
    """Create, train, succeed."""
    await begin(stage, 2, 3)
    await trained(stage, 3)
    await stage.finish()


async def loss(stage: Stage) -> None:
    """A pod is deleted by force, and replaced."""
    warm = asyncio.Event()
    stage.world.play().may_start = dict.fromkeys(range(_FIRST_REPLACEMENT, 40), warm)
    if not stage.is_exact:
        warm.set()  # who else is lost has to be replaced, too
    await begin(stage, 2, 3)
    await trained(stage, 3)
    doomed = (await stage.world.pods())[1]["metadata"]["name"]
    stage.doomed.add(1)
    await stage.world.kube.delete(at("pods", stage.world.namespace, doomed), grace_seconds=0)
    if stage.is_exact:
        await trained(stage, 2)
        warm.set()
    await trained(stage, 3)
    await stage.finish()


async def resize(stage: Stage) -> None:
    """Grow, shrink, succeed."""
    await begin(stage, 1, 2)
    await trained(stage, 2)
    await stage.world.patch_job({"workers": {"replicas": 3}})
    await trained(stage, 3)
    await stage.world.patch_job({"workers": {"replicas": 1}})
    await trained(stage, 1)
    if stage.is_exact:  # all pods that are there when a job ends are kept for their logs
        await stage.world.until(lambda: _has_pods(stage, 1))
    await stage.finish()


async def _has_pods(stage: Stage, number: int) -> bool:
    return len(await stage.world.pods()) == number


async def suspend(stage: Stage) -> None:
    """Suspend with a checkpoint, go on from it, succeed."""
    volume: dict[str, Any] = {"volume": {"emptyDir": {}}}
    await begin(stage, 2, 2, checkpoint=volume)
    await trained(stage, 2)
    await stage.world.patch_job({"suspend": True})
    await stage.world.until_phase("Suspended")
    await stage.all_settled()
    await stage.world.patch_job({"suspend": False})
    await trained(stage, 2)
    await stage.finish()


async def delete(stage: Stage) -> None:
    """Delete a job whose workers train."""
    world = stage.world
    await begin(stage, 2, 2)
    await trained(stage, 2)
    await world.kube.delete(world.jobs("job"))

    async def gone() -> bool:
        return await world.pods() == [] and await world.kube.list(world.jobs()) == []

    await world.until(gone)


SCENARIOS: dict[str, Callable[[Stage], Coroutine[Any, Any, None]]] = {
    one.__name__: one for one in (create, loss, resize, suspend, delete)
}
