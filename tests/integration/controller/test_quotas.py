"""A ResourceQuota with room for one gang: half of two would help nobody, nor half of one."""

from datetime import timedelta
from typing import Any

import pytest

from spotrun.act.pods import rollout
from spotrun.kube.backoff import Backoff
from spotrun.observe.jobs import gang_lines
from spotrun.policies.placement.queueing import gang
from tests.support.cluster.operator_world import World
from tests.support.cluster.quotas import limit

SLOW = Backoff(least_seconds=30.0, most_seconds=30.0)
QUICK = Backoff(least_seconds=0.5, most_seconds=2.0)


@pytest.fixture
async def roomy(world: World) -> World:
    """Nodes are not what is short."""
    await world.nodes.add("large", capacity={"cpu": "32", "memory": "64Gi"})
    return world


def workers(size: int) -> dict[str, int]:
    return {"min": size, "max": size, "replicas": size}


def says(reason: str, words: str) -> Any:
    return lambda s: s.get("reason") == reason and words in s.get("message", "")


async def has_pods(world: World, job: str, number: int) -> None:
    async def seen() -> bool:
        return len(await world.pods(job)) == number

    await world.until(seen)


async def test_of_two_gangs_that_a_quota_let_in_by_half_one_trains_and_the_other_follows(
    roomy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limit(roomy, "pods", 2)
    async with roomy.operator():
        monkeypatch.setattr(rollout, "REFUSED", SLOW)  # until the other one has its half, too
        await roomy.create_job("later", workers=workers(4))
        await roomy.until_job(says("QuotaExceeded", "at least 4 workers"), "later")
        await has_pods(roomy, "later", 2)
        monkeypatch.setattr(rollout, "REFUSED", QUICK)
        await limit(roomy, "pods", 4)
        await roomy.create_job("first", workers=workers(4), priority=1)

        await roomy.until_job(says("WaitingForGang", "exceeded quota: few"), "later")
        await roomy.until_phase("Running", "first")
        assert len(await roomy.pods("first")) == 4
        await has_pods(roomy, "later", 0)
        needs = "at least 4 workers are needed at once, which is pods=4; "
        waits = await roomy.until_job(says("QuotaExceeded", needs), "later")
        assert waits["status"]["phase"] == "Pending"

        roomy.play("first").may_finish.set()
        await roomy.until_phase("Succeeded", "first")
        job = await roomy.until_phase("Running", "later")
    (accepted,) = (c for c in job["status"]["conditions"] if c["type"] == "TemplateAccepted")
    assert accepted["status"] == "True"


async def test_a_gang_larger_than_its_quota_keeps_nothing_after_its_patience_until_there_is_room(
    roomy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (gang, gang_lines):
        monkeypatch.setattr(module, "PATIENCE", timedelta(seconds=3))
    await limit(roomy, "pods", 2)
    async with roomy.operator():
        await roomy.create_job(workers=workers(3))
        await has_pods(roomy, "job", 2)
        words = "at least 3 workers are needed at once, which is pods=3; none is kept while"
        job = await roomy.until_job(says("QuotaExceeded", words))
        assert "exceeded quota: few, requested: pods=1" in job["status"]["message"]
        await has_pods(roomy, "job", 0)
        await limit(roomy, "pods", 3)
        await roomy.until_phase("Running")
