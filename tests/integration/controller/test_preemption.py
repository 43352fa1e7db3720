"""A job of higher priority gets the nodes of those that are cheapest to interrupt."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from devcluster.client import at
from spotrun.policies.placement.queueing import giving_way
from tests.support.cluster.operator_world import GROUP, World

INSTANCE = "node.kubernetes.io/instance-type"
CPU = {"cpu": "1", "memory": "8Gi"}
PREEMPTS = {"priority": 100, "placement": {"preempts": "LowerPriority"}}


def workers(least: int, most: int) -> dict[str, Any]:
    requests = {"resources": {"requests": CPU}}  # all of a node, and so all of its price
    container = {"name": "trainer", "image": "x", "args": ["train.py"], **requests}
    template = {"spec": {"containers": [container]}}
    return {"min": least, "max": most, "replicas": most, "template": template}


def runs(size: int) -> Any:
    """Whether a job trains in a world of so many."""
    return lambda s: s.get("phase") == "Running" and s["workers"]["running"] == size


def why(job: dict[str, Any], what: str) -> list[str]:
    return [one["why"] for one in job["status"]["decisions"] if one["what"] == what]


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_way, "REST", timedelta(seconds=1))
    monkeypatch.setattr(giving_way, "LOOK_SECONDS", 0.2)


async def test_a_job_shrinks_for_one_of_higher_priority_and_grows_back_when_that_has_ended(
    world: World,
) -> None:
    for name in ("a", "b", "c", "d"):
        await world.nodes.add(name, capacity=CPU)
    async with world.operator():
        await world.create_job("low", workers=workers(1, 4))
        await world.until_job(runs(4), "low")
        await world.create_job("high", workers=workers(2, 2), **PREEMPTS)
        high = await world.until_job(runs(2), "high")
        low = await world.until_job(runs(2), "low")
        given = low["status"]["givesWay"]
        assert (given["to"], given["workers"]) == (f"{world.namespace}/high", 2)
        assert "until" not in given
        assert low["status"]["workers"]["allowed"] == {"size": 2, "reason": "GivesWay"}
        (words,) = why(high, "MakesRoom")
        assert f"{world.namespace}/low shrinks from 4 to 2 workers" in words
        (words,) = why(low, "GivesWay")
        assert "of priority 100 lacks nodes for 2 workers" in words

        world.play("high").may_finish.set()
        await world.until_phase("Succeeded", "high")
        low = await world.until_job(runs(4), "low")
        assert "no longer needs the room" in why(low, "GivesWay")[-1]


async def test_a_job_that_cannot_shrink_saves_and_is_suspended_until_there_is_room(
    world: World,
) -> None:
    for name in ("a", "b"):
        await world.nodes.add(name, capacity=CPU)
    async with world.operator():
        await world.create_job(
            "low", workers=workers(2, 2), checkpoint={"volume": {"emptyDir": {}}}
        )
        await world.until_job(runs(2), "low")
        await world.create_job("large", workers=workers(3, 3), **PREEMPTS)
        large = await world.until_job(lambda s: "No job is preempted" in str(s), "large")
        assert "only 2 would find room" in why(large, "MakesRoom")[-1]
        assert (await world.job("low"))["status"]["phase"] == "Running"
        await world.patch_job({"suspend": True}, "large")

        await world.create_job("high", workers=workers(1, 1), **PREEMPTS)
        low = await world.until_phase("Suspended", "low")
        assert (low["status"]["suspendedBy"], low["status"]["reason"]) == (
            ["Preemption"],
            "GivesWay",
        )
        await world.until_job(runs(1), "high")
        low = await world.job("low")
        assert low["status"]["checkpoint"]["name"] == "step-100.g1"
        assert low["status"]["phase"] == "Suspended"

        await world.nodes.add("c", capacity=CPU)
        low = await world.until_job(runs(2), "low")
        assert low["status"]["world"]["restore"] == "step-100.g1"


async def test_money_comes_first_and_then_what_is_lent_goes_before_anybody_is_preempted(
    world: World, lent: str
) -> None:
    """A limit, a job that lends and one that preempts meet: each has its say once."""
    for name in ("a", "b"):
        await world.nodes.add(name, capacity=CPU, labels={INSTANCE: "g5.xl"})
    pool = {"instanceTypes": ["g5.xl"], "capacity": "OnDemand", "usdPerHour": "9"}
    body = {"apiVersion": GROUP, "kind": "CapacityPool", "metadata": {"name": "g5"}, "spec": pool}
    await world.kube.create(at("capacitypools", group=GROUP), body)
    # A worker needs $2.34 to start: ten minutes of it, and its end, 1.2 times that.
    await world.create_limit(limitUsd="6")
    async with world.operator():
        lend = {"priorityClassName": lent, "atLeast": 1}
        await world.create_job("low", workers=workers(1, 2), placement={"lend": lend})
        await world.until_job(runs(2), "low")
        await world.create_job("high", workers=workers(1, 1), **PREEMPTS)
        high = await world.until_phase("Suspended", "high")
        assert high["status"]["suspendedBy"] == ["SpendLimit"]
        low = await world.job("low")
        assert "givesWay" not in low["status"], "nobody makes room for a job that may not start"

        await world.kube.patch(world.limits("team"), {"spec": {"limitUsd": "50"}})
        await world.until_job(runs(1), "high")
        low = await world.until_job(runs(1), "low")
        (kept,) = [pod for pod in await world.pods("low") if pod["status"]["phase"] == "Running"]
        assert "spotrun.dev/lent" not in kept["metadata"]["labels"]
        assert low["status"]["interruptions"]["last"]["reason"] == "Preempted"
        assert not why(low, "GivesWay"), "what is lent Kubernetes gives without anybody's asking"

        world.play("high").may_finish.set()
        await world.until_phase("Succeeded", "high")
        low = await world.until_job(runs(2), "low")
        assert low["status"]["interruptions"]["count"] == 1


@pytest.fixture
async def lent(world: World) -> AsyncIterator[str]:
    """The name of a PriorityClass for workers that are lent."""
    classes, name = at("priorityclasses", group="scheduling.k8s.io/v1"), f"lent-{world.namespace}"
    await world.kube.create(classes, {"metadata": {"name": name}, "value": -100})
    yield name
    await world.kube.delete(f"{classes}/{name}")
