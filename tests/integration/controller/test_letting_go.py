"""Nothing keeps a job from being suspended, released or deleted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from devcluster.client import STRATEGIC, Manifest, at
from spotrun.policies.policy import Policy
from tests.support.cluster.operator_world import World
from tests.support.cluster.webhooks import down

ROOM = {"cpu": "64", "memory": "64Gi"}
PRICE = {"spotrun.dev/usd-per-hour": "10"}
UID_LABEL = "spotrun.dev/job-uid"


@asynccontextmanager
async def training(world: World, workers: int = 1) -> AsyncIterator[Manifest]:
    """A job that trains on a node that costs something; yields it while the operator runs."""
    await world.nodes.add("a", capacity=ROOM, annotations=PRICE)
    async with world.operator():
        await world.create_job(workers={"min": workers, "max": workers, "replicas": workers})
        yield await world.until_phase("Running")


async def until_gone(world: World, name: str = "job") -> None:
    """Wait until a job that is being deleted, and all pods of the namespace, are gone."""

    async def is_gone() -> bool:
        jobs = await world.kube.list(world.jobs())
        left = [job for job in jobs if job["metadata"]["name"] == name]
        return not left and not await world.kube.list(at("pods", world.namespace))

    await world.until(is_gone)


async def call_unreachable(world: World, node: str) -> None:
    """Say of a node what the node controller says of it when 50 s have gone by."""
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    said = {"status": {"conditions": [{**silent, "lastTransitionTime": moment}]}}
    await world.kube.patch(at("nodes", None, node, "status"), said, content_type=STRATEGIC)


async def delete_in_foreground(world: World) -> None:
    await world.kube.delete(world.jobs("job"), propagation="Foreground")


async def break_spec(world: World, _: pytest.MonkeyPatch) -> str:
    """Break the template in a way that the API server accepts, as a user may while suspending."""
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "env": {"A": "b"}}
    workers = {"template": {"spec": {"containers": [container]}}}
    await world.patch_job({"suspend": True, "workers": workers})
    return "TemplateRefused"


async def break_decide(_: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """As a mistake in any policy does."""

    def fail(*_: Any) -> Any:
        raise ValueError("a mistake in a policy")

    monkeypatch.setattr("spotrun.policies.chain.POLICIES", (Policy(fail),))
    return "Undecided"


@pytest.mark.parametrize("breaks", [break_spec, break_decide])
async def test_a_job_that_cannot_be_decided_is_suspended_charged_and_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch, breaks: Any
) -> None:
    async with training(world, workers=2):
        reason = await breaks(world, monkeypatch)
        await world.patch_job({"suspend": True})
        await world.until_no_pods()
        job = await world.until_job(lambda s: s.get("settled") == "0-1")
        status = job["status"]
        assert (status["phase"], status["reason"]) == ("Suspended", reason)
        assert status["suspendedBy"] == ["User"]
        cost = status["cost"]
        assert (cost["pricing"], cost["usdPerHour"]) == ("Complete", "0")
        await delete_in_foreground(world)
        await until_gone(world)


async def test_one_that_trains_is_deleted_with_its_workers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with training(world):
        reason = await break_decide(world, monkeypatch)
        await world.patch_job({"priority": 1})
        await world.until_job(lambda s: s.get("reason") == reason)
        await delete_in_foreground(world)
        await until_gone(world)


async def test_what_is_left_of_a_former_job_is_in_nobodys_way(world: World) -> None:
    async with training(world):
        (left,) = await world.pods()
        async with down(world):
            await world.kube.delete(world.jobs("job"))
            await world.create_job()
            job = await world.until_phase("Running")
            there = {pod["metadata"]["uid"] for pod in await world.pods()}
            assert left["metadata"]["uid"] in there, "nobody could let go of it"
            assert len(there) == 2

        async def only_one() -> bool:
            found = [pod["metadata"]["labels"][UID_LABEL] for pod in await world.pods()]
            return found == [job["metadata"]["uid"]]

        await world.until(only_one)


async def test_pods_of_a_deleted_job_do_not_wait_for_the_pause_after_its_failures(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with training(world):
        tried: list[float] = []

        async def fail(*_: Any) -> float:
            tried.append(0.0)
            raise ValueError("a mistake")

        monkeypatch.setattr("spotrun.runtime.reconciler.Reconciler.reconcile", fail)
        await world.patch_job({"priority": 1})
        # The pause is at least 3 s by then, and twice as long after each more.
        await world.until(lambda: has_tried(tried, 7))
        await world.kube.delete(world.jobs("job"))
        await until_gone(world)
        assert len(tried) < 9, "nobody waited for the job's own work"


async def has_tried(tried: list[float], times: int) -> bool:
    return len(tried) >= times


@pytest.mark.parametrize("label", [None, "another"])
async def test_a_worker_whose_label_somebody_changed_gets_it_back_and_trains_on(
    world: World, label: str | None
) -> None:
    async with training(world, workers=2) as job:
        pod = (await world.pods())[1]
        path = at("pods", world.namespace, pod["metadata"]["name"])
        await world.kube.patch(path, {"metadata": {"labels": {UID_LABEL: label}}})

        async def is_back() -> bool:
            labels = (await world.kube.get(path))["metadata"]["labels"]
            return bool(labels.get(UID_LABEL) == job["metadata"]["uid"])

        await world.until(is_back)

        async def is_told() -> bool:
            events = await world.kube.list(at("events", world.namespace))
            return any(one["reason"] == "LabelsRestored" for one in events)

        await world.until(is_told)
        world.play().may_finish.set()
        done = await world.until_job(lambda s: s.get("settled") == "0-1")
        worlds = [world.agent(worker_id).worlds for worker_id in (0, 1)]
    assert worlds == [[1], [1]], "nobody was taken for lost"
    assert "interruptions" not in done["status"]


async def test_a_worker_that_nobody_could_label_is_released_when_its_job_is_deleted(
    world: World,
) -> None:
    async with training(world, workers=2):
        pod = (await world.pods())[1]["metadata"]["name"]
        async with down(world):
            # Labels are taken off where webhooks are not asked: with another subresource.
            path = at("pods", world.namespace, pod, "status")
            await world.kube.patch(path, {"metadata": {"labels": {UID_LABEL: None}}})
            await world.until_job(lambda s: s.get("phase") == "Recovering")
            await world.kube.delete(world.jobs("job"))
        await until_gone(world)


async def test_a_pod_that_is_given_up_by_force_on_a_dead_machine_is_released(world: World) -> None:
    async with training(world):
        await world.nodes["a"].vanish()
        (pod,) = await world.pods()
        path = at("pods", world.namespace, pod["metadata"]["name"])
        await world.kube.delete(path, grace_seconds=0)
        await call_unreachable(world, "a")
        await world.until_job(lambda s: s.get("settled") == "0")

        async def is_gone() -> bool:
            return pod["metadata"]["uid"] not in {p["metadata"]["uid"] for p in await world.pods()}

        await world.until(is_gone)
    await world.kube.get(at("nodes", None, "a"))  # its Node object is still there
