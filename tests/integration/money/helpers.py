"""Jobs that cost something."""

import asyncio
from datetime import datetime
from fractions import Fraction
from typing import Any

from devcluster.client import Manifest, at
from tests.meter.meter import Meter
from tests.support.cluster.operator_world import World

PRICE = "spotrun.dev/usd-per-hour"
ROOM = {"cpu": "4", "memory": "16Gi"}
ASKED = {"requests": {"cpu": "1", "memory": "4Gi"}}
CENT = Fraction(1, 100)
ROUNDING = Fraction(1, 10**9)


async def add_node(world: World, name: str, usd_per_hour: str | None = None) -> None:
    """A node of known price, or of unknown."""
    annotations = {PRICE: usd_per_hour} if usd_per_hour is not None else {}
    await world.nodes.add(name, capacity=ROOM, annotations=annotations)


def workers(number: int, **more: Any) -> dict[str, Any]:
    """Workers that take a quarter of a node each."""
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ASKED}
    template = {"spec": {"containers": [container]}}
    return {"min": 1, "max": number, "replicas": number, "template": template, **more}


async def let_time_pass(seconds: float = 2.0) -> None:
    """Kubernetes tells the times of pods in whole seconds."""
    await asyncio.sleep(seconds)


def all_settled(status: Manifest) -> bool:
    """Whether a finished job's workers are all in its sums."""
    numbers: set[int] = set()
    for part in filter(None, status.get("settled", "").split(",")):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return status.get("phase") == "Succeeded" and len(numbers) == status["nextWorkerId"]


async def events_of(world: World, words: str) -> list[Manifest]:
    """The events that say so, once there are any."""

    async def told() -> list[Manifest]:
        events = await world.kube.list(at("events", world.namespace, group="events.k8s.io/v1"))
        return [event for event in events if words in event.get("note", "")]

    found: list[Manifest] = await world.until(told)
    return found


async def assert_agrees(job: Manifest, meter: Meter, *, exact: bool = True) -> None:
    """Check a cost to the cent; to the last digit where somebody says when everything happened."""
    cost, sums = job["status"]["cost"], job["status"]["accumulators"]
    await meter.has_seen_all_ends("job")
    metered = meter.usd("job", datetime.fromisoformat(cost["asOf"]))
    assert metered > 0, "it has cost something"
    assert abs(Fraction(cost["usd"]) - metered) < CENT
    assert not exact or abs(Fraction(sums["usd"]) - metered) < ROUNDING
