"""A worker whose machine dies without a word, while its Node object stays for longer or for ever.

What the operator says of the job at any moment is compared with the meter, and each fall of what it
says with the correction that it shows.
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Literal

from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from devcluster.nodes import delete_node_object
from spotrun.kube.tasks import running
from tests.meter.lives import is_settled
from tests.meter.meter import PRICE, Meter, metered
from tests.support.cluster.operator_world import World, open_world

Job = Literal["running", "finished", "suspended"]
"""The state of the job once its worker is lost."""
Node = Literal["stays", "is removed", "returns"]
"""The fate of the Node object."""

DEATHS: tuple[tuple[Job, Node], ...] = (
    ("running", "stays"),
    ("finished", "is removed"),
    ("suspended", "returns"),
    ("running", "is removed"),
    ("running", "returns"),
    ("finished", "stays"),
    ("finished", "returns"),
    ("suspended", "stays"),
    ("suspended", "is removed"),
)

_ROOM = {"cpu": "4", "memory": "16Gi"}
_ASKED = {"requests": {"cpu": "3", "memory": "12Gi"}}  # two have no room on one node
_PATIENCE_SECONDS = 120.0
"""Kubernetes waits 50 s for a node."""
_SILENCE_SECONDS = 2.0
"""The worker is silent as well by then, as it is after 50 s."""


@dataclass
class Death:
    """The differences between what was said of the job and what the meter says."""

    errors_usd: list[Fraction] = field(default_factory=list)  # at every look
    falls_usd: list[Fraction] = field(default_factory=list)  # that no correction explains
    final: Manifest = field(default_factory=dict)  # the job's status at the end


@dataclass
class Looks:
    """All that was said of the job's cost."""

    world: World
    costs: list[Manifest] = field(default_factory=list)

    async def look(self) -> None:
        """Follow the job."""
        async with aclosing(self.world.kube.watch(self.world.jobs())) as events:
            async for event in events:
                cost = event.object.get("status", {}).get("cost", {})
                if "usd" in cost:
                    self.costs.append(cost)


async def die(
    cluster: Cluster, job: Job, node: Node, *, declared: bool, seconds: float = 5.0
) -> Death:
    """Let a machine die under one of two workers; `declared`: and say so for Kubernetes at once."""
    async with open_world(cluster) as world, metered(world.kube, world.namespace) as meter:
        looks = Looks(world)
        async with running(looks.look()), world.operator():
            await begin(world)
            await asyncio.sleep(seconds)
            await _lose_b(world, declared=declared)
            await world.until_job(lambda s: "ends" in s.get("accumulators", {}))
            await _go_on(world, job)
            await asyncio.sleep(seconds)
            if node == "is removed":
                await delete_node_object(world.kube, "b")
            elif node == "returns":
                await world.nodes["b"].come_back()
            world.play().may_finish.set()
            if job == "suspended":
                await world.patch_job({"suspend": False})
            final = await world.until_job(lambda s: _is_over(s, node))
            return compared(looks.costs, meter, final["status"])


async def begin(world: World) -> None:
    """Let two workers train, each on a node of its own."""
    for name in "ab":
        await world.nodes.add(name, capacity=_ROOM, annotations={PRICE: "9"})
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": _ASKED}
    template = {"spec": {"containers": [container]}}
    await world.create_job(workers={"min": 1, "max": 2, "replicas": 2, "template": template})
    await world.until_phase("Running")
    await world.until_job(lambda s: s.get("workers", {}).get("summary") == "2/2")


async def _lose_b(world: World, *, declared: bool) -> None:
    """Lose a worker that nobody misses but Kubernetes: its agent has no peers."""
    await world.nodes["b"].vanish()
    if declared:
        await asyncio.sleep(_SILENCE_SECONDS)
        await _declare_unreachable(world, "b")
    nodes = at("nodes")
    await world.kube.until(nodes, "b", _is_unreachable, timeout_seconds=_PATIENCE_SECONDS)
    await world.until_job(lambda s: bool(s.get("lost")))


async def _declare_unreachable(world: World, name: str) -> None:
    """Say of a node what Kubernetes says of it in 50 s."""
    conditions = (await world.nodes[name].read())["status"]["conditions"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
    changed = [{**one, **said} if one["type"] == "Ready" else one for one in conditions]
    path = at("nodes", None, name, "status")
    await world.kube.patch(path, {"status": {"conditions": changed}})


async def _go_on(world: World, job: Job) -> None:
    if job == "finished":
        world.play().may_finish.set()
        await world.until_phase("Succeeded")
    elif job == "suspended":
        await world.patch_job({"suspend": True})
        await world.until_phase("Suspended")


def _is_unreachable(node: Manifest | None) -> bool:
    assert node is not None
    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    return bool(ready["status"] == "Unknown")


def _is_over(status: Manifest, node: Node) -> bool:
    """Whether all workers are settled, but for one whose node says nothing for ever."""
    if node != "stays":
        return is_settled(status)
    is_paid = status.get("cost", {}).get("usdPerHour") == "0"
    return status.get("phase") == "Succeeded" and is_paid


def compared(costs: list[Manifest], meter: Meter, final: Manifest) -> Death:
    """Compare what was said with the meter, and with what was said before."""
    death = Death(final=final)
    shown = Fraction(0)
    for cost in [*costs, final["cost"]]:
        usd = Fraction(cost["usd"])
        metered_usd = meter.usd("job", datetime.fromisoformat(cost["asOf"]))
        death.errors_usd.append(abs(usd - metered_usd))
        uncorrected = usd - Fraction(cost.get("correctedUsd", "0"))
        death.falls_usd.append(max(shown - uncorrected, Fraction(0)))
        shown = uncorrected
    return death
