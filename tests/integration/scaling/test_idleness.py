"""Workers that are paid and do next to nothing: a condition says it, and an event."""

import pytest

from devcluster.client import Manifest
from spotrun.decide import idle
from tests.integration.scaling.helpers import ROOMY, events_of
from tests.operator_world import World
from tests.scripted_agent import Times

ASKED = {"requests": {"cpu": "1", "memory": "4Gi"}}
CONTAINER = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ASKED}


def waiting(size: int) -> Times:
    """For data, nearly all the time: 0.01 % of a node of 64 CPUs is 0.6 % of one of them."""
    return Times(0.001, 9.999)


def condition(status: Manifest) -> Manifest:
    found: Manifest = next((c for c in status.get("conditions", ()) if c["type"] == "Idle"), {})
    return found


async def test_a_job_that_does_nothing_is_called_idle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "IDLE_SECONDS", 0.5)
    await world.nodes.add("a", capacity=ROOMY)
    world.play().step_times = waiting
    template = {"spec": {"containers": [CONTAINER]}}
    workers = {"min": 2, "max": 2, "replicas": 2, "template": template}
    await world.create_job(workers=workers)
    async with world.operator():
        job = await world.until_job(lambda status: condition(status).get("status") == "True")
        said = condition(job["status"])
        assert (said["reason"], said["message"].partition(":")[0]) == (
            "NothingUsed",
            "for 15 min 2 workers have used less than 5% of their GPUs, or of the CPU they request",
        )
        [event] = await world.until(lambda: events_of(world, "NothingUsed"))
        assert event["note"] == said["message"]
        assert event["type"] == "Warning"
