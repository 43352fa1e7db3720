"""Workers that are paid and do next to nothing: a condition says it, and an event."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devcluster.client import Manifest
from spotrun.policies.scaling import idle
from tests.integration.scaling.helpers import ROOMY, events_of
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times

ASKED = {"requests": {"cpu": "1", "memory": "4Gi"}}
KEPT = {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}}
CONTAINER = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": ASKED}


def waiting(size: int) -> Times:
    """For data, nearly all the time: 0.01 % of a node of 64 CPUs is 0.6 % of one of them."""
    return Times(0.001, 9.999)


def condition(status: Manifest) -> Manifest:
    found: Manifest = next((c for c in status.get("conditions", ()) if c["type"] == "Idle"), {})
    return found


def an_idle(number: int, **spec: Any) -> Manifest:
    """What is asked of a job of so many workers."""
    template = {"spec": {"containers": [CONTAINER]}}
    return {"workers": {"min": number, "max": number, "template": template}, **spec}


async def test_a_job_that_does_nothing_is_called_idle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "IDLE_SECONDS", 0.5)
    await world.nodes.add("a", capacity=ROOMY)
    world.play().step_times = waiting
    await world.create_job(**an_idle(2))
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


async def test_a_job_that_goes_on_doing_nothing_is_saved_suspended_and_let_go_on_by_its_user(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "IDLE_SECONDS", 0.5)
    await world.nodes.add("a", capacity=ROOMY)
    world.play().step_times = waiting
    await world.create_job(**an_idle(1, idle={"suspendAfter": "1h"}, checkpoint=KEPT))
    async with world.operator():
        job = await world.until_job(lambda status: condition(status).get("status") == "True")
    await an_hour_ago(world, job["status"])
    async with world.operator():
        job = await world.until_phase("Suspended")
        assert (job["status"]["suspendedBy"], job["status"]["reason"]) == (["Idle"], "Idle")
        await world.until_no_pods()
        status = (await world.job())["status"]
        assert status["checkpoint"]["name"] == "step-100.g1"
        assert "to continue, set spec.suspend to true, and then to false" in status["message"]
        [event] = await world.until(lambda: events_of(world, "Idle"))
        assert event["type"] == "Warning"
        await world.patch_job({"suspend": True})
        await world.until_job(lambda status: status["suspendedBy"] == ["User"])
        await world.patch_job({"suspend": False})
        await world.until_phase("Running")


async def an_hour_ago(world: World, status: Manifest) -> None:
    """Have the job idle since then, as its status has it."""
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    told = [
        {**one, "lastTransitionTime": since} if one["type"] == "Idle" else one
        for one in status["conditions"]
    ]
    await world.kube.patch(f"{world.jobs('job')}/status", {"status": {"conditions": told}})
