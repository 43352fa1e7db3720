"""What somebody sees who watches a job begin and end, long before its next refresh."""

import pytest

from devcluster.client import Manifest
from spotrun.policies.report import write_rate
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times

HOUR_SECONDS = 3600.0
TEMPLATE = {"spec": {"containers": [{"name": "trainer", "image": "x", "args": ["train.py"]}]}}


async def test_first_steps_and_the_end_that_they_foresee_are_told_without_a_refresh(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_rate, "REFRESH_SECONDS", HOUR_SECONDS)
    monkeypatch.setattr(write_rate, "LATEST_REFRESH_SECONDS", HOUR_SECONDS)
    await world.nodes.add("a")
    world.play().step_times = lambda _: Times(1.0)
    await world.create_job(workers={"template": TEMPLATE})
    async with world.operator():
        job = await world.until_job(_is_foreseen)
        progress = job["status"]["progress"]
        assert progress["step"] > 0
        assert progress["totalSteps"] == world.play().steps
        world.play().may_finish.set()
        job = await world.until_phase("Succeeded")
        assert "eta" not in job["status"]["progress"]
        assert job["status"]["message"] == (
            "the training is complete; spec.checkpoint names no place, so no checkpoint was made"
        )


def _is_foreseen(status: Manifest) -> bool:
    return "eta" in status.get("progress", {})
