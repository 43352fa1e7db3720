"""Jobs under the real Kueue: its controllers and webhooks beside the API server of the cluster."""

from decimal import Decimal

import pytest

from devcluster.client import Manifest, at
from spotrun.money.units import Usd
from spotrun.observe.queues import caches
from spotrun.policies.report import queue_boost
from tests.integration.queueing.helpers import (
    KUEUE,
    boost,
    count,
    create_job,
    holds,
    make,
    workloads,
)
from tests.support.cluster.operator_world import World


async def all_arrived(world: World, count: int) -> bool:
    agents = world.play("job").agents.values()
    return sum(agent.report.arrived == 1 for agent in agents) == count


async def test_a_job_has_no_pods_until_its_queue_admits_it_and_then_as_many_as_were_admitted(
    queued: World,
) -> None:
    async with queued.operator(kueue=True):
        await create_job(queued, "job", 2, 3)
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 3)
        pods = await queued.pods()
        assert {pod["spec"]["nodeSelector"]["node-kind"] for pod in pods} == {"blue"}

        await create_job(queued, "second", 2, 2)
        waits = await queued.until_job(
            lambda s: "Queue: the job waits" in s.get("message", ""), "second"
        )
        assert (waits["status"]["phase"], waits["status"]["reason"]) == ("Suspended", "Queued")
        assert await queued.pods("second") == []

        queued.play("job").may_finish.set()
        await queued.until_phase("Succeeded")
        await queued.until_phase("Running", "second")
        (first,) = await workloads(queued)
        assert holds(first, "Finished")


async def test_as_many_are_admitted_as_there_is_quota_for_and_growth_asks_for_the_rest(
    queued: World,
) -> None:
    async with queued.operator(kueue=True):
        await create_job(queued, "other", 3, 3)
        await queued.until_phase("Running", "other")
        await create_job(queued, "job", 1, 4)  # one CPU is left
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 1)
        assert len(await queued.pods()) == 1

        queued.play("other").may_finish.set()
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 4)
        first, more = sorted(await workloads(queued), key=lambda one: str(one["metadata"]["name"]))
        assert (count(first), count(more)) == (1, 3)

        await queued.patch_job({"workers": {"replicas": 2}})
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 2)
        await create_job(queued, "third", 2, 2)
        await queued.until_phase("Running", "third")


async def test_a_job_of_higher_priority_takes_what_has_grown_before_it_takes_a_world(
    queued: World,
) -> None:
    await make(queued, "WorkloadPriorityClass", f"high-{queued.namespace}", None, value=10)
    async with queued.operator(kueue=True):
        await create_job(queued, "other", 3, 3)
        await queued.until_phase("Running", "other")
        await create_job(queued, "job", 1, 4)
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 1)
        queued.play("other").may_finish.set()
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 4)

        await create_job(queued, "urgent", 3, 3, priority_class=f"high-{queued.namespace}")
        await queued.until_phase("Running", "urgent")
        job = await queued.until_job(lambda s: s.get("workers", {}).get("running") == 1)
        assert job["status"]["phase"] == "Running"

        queued.play("urgent").may_finish.set()
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 4)


async def test_a_preempted_job_saves_a_checkpoint_gives_its_quota_back_and_goes_on_later(
    queued: World,
) -> None:
    await make(queued, "WorkloadPriorityClass", f"high-{queued.namespace}", None, value=10)
    async with queued.operator(kueue=True):
        await create_job(queued, "job", 3, 3, checkpoint={"volume": {"emptyDir": {}}})
        await queued.until_phase("Running")
        await queued.until(lambda: all_arrived(queued, 3))
        await create_job(queued, "urgent", 4, 4, priority_class=f"high-{queued.namespace}")
        job = await queued.until_phase("Suspended")
        assert job["status"]["reason"] == "EvictedByQueue"
        assert "a job that comes first needs it" in job["status"]["message"]
        await queued.until_phase("Running", "urgent")
        assert await queued.pods() == []
        assert (await queued.job())["status"]["checkpoint"]["name"] == "step-100.g1"

        queued.play("urgent").may_finish.set()
        job = await queued.until_phase("Running")
        assert job["status"]["world"]["restore"] == "step-100.g1"


async def test_of_jobs_of_one_priority_kueue_preempts_the_one_that_is_cheapest_to_interrupt(
    queued: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself it takes the newest; here that is three times as expensive, by its workers."""
    monkeypatch.setattr(queue_boost, "_LEAST", Usd(Decimal("0.000001")))
    monkeypatch.setattr(queue_boost, "_STEP", 1)
    high = f"high-{queued.namespace}"
    await make(queued, "WorkloadPriorityClass", high, None, value=1000)
    async with queued.operator(kueue=True, kueue_priority_boost=50):
        for name, size in (("cheap", 1), ("dear", 3)):
            await create_job(queued, name, size, size)
            await queued.until_phase("Running", name)

        async def costs_more() -> bool:
            return 0 < await boost(queued, "cheap") < await boost(queued, "dear")

        await queued.until(costs_more)
        await create_job(queued, "urgent", 1, 1, priority_class=high)
        await queued.until_phase("Running", "urgent")
        job = await queued.until_phase("Suspended", "cheap")
        assert job["status"]["reason"] == "EvictedByQueue"
        assert (await queued.job("dear"))["status"]["phase"] == "Running"

        async def waits_by_priority_alone() -> bool:
            return await boost(queued, "cheap") == 0

        await queued.until(waits_by_priority_alone)


async def test_a_workload_that_somebody_deactivates_waits_until_it_is_active_again(
    queued: World,
) -> None:
    async with queued.operator(kueue=True):
        await create_job(queued, "job", 2, 2)
        await queued.until_phase("Running")
        (one,) = await workloads(queued)
        path = at("workloads", queued.namespace, one["metadata"]["name"], group=KUEUE)
        await queued.kube.patch(path, {"spec": {"active": False}})
        job = await queued.until_phase("Suspended")
        assert "set its spec.active to true" in job["status"]["message"]
        await queued.until_no_pods()
        await create_job(queued, "other", 4, 4)
        await queued.until_phase("Running", "other")
        queued.play("other").may_finish.set()
        await queued.kube.patch(path, {"spec": {"active": True}})
        await queued.until_phase("Running")


async def test_a_job_that_its_user_suspends_leaves_the_queue(queued: World) -> None:
    async with queued.operator(kueue=True):
        await create_job(queued, "job", 4, 4)
        await queued.until_phase("Running")
        await queued.patch_job({"suspend": True})
        await create_job(queued, "other", 4, 4)
        await queued.until_phase("Running", "other")
        assert await workloads(queued) == []


async def test_without_kueue_a_job_that_names_a_queue_waits_and_says_for_what(
    queued: World,
) -> None:
    async with queued.operator():
        await create_job(queued, "job", 1, 1)
        job = await queued.until_phase("Suspended")
        assert "found no Kueue" in job["status"]["message"]
        assert await workloads(queued) == []


async def test_where_only_the_older_api_is_served_that_is_used(
    queued: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "VERSIONS", ("v1", "v1beta1"))
    name = f"high-{queued.namespace}"
    await make(queued, "WorkloadPriorityClass", name, None, value=10)
    async with queued.operator(kueue=True):
        await create_job(queued, "job", 1, 4, priority_class=name)
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 4)
        (one,) = await workloads(queued)
        assert one["spec"]["priorityClassRef"]["name"] == name
        await queued.patch_job({"workers": {"replicas": 2}})
        path = at("workloads", queued.namespace, group=KUEUE)
        given_back = [{"name": "workers", "count": 2}]
        await queued.kube.until(
            path,
            one["metadata"]["name"],
            lambda one: one is not None and one["status"].get("reclaimablePods") == given_back,
            timeout_seconds=queued.patience_seconds,
        )


def told(status: Manifest, what: str) -> int:
    """Return how many trials of a search have this in its status."""
    return sum(what in one for one in status.get("history", ()))


async def test_the_trials_of_a_search_take_their_turn_in_the_queue_and_keep_their_money(
    queued: World,
) -> None:
    """Two of three trials have quota at a time; one is let go of while it waits for its turn."""
    for number, loss in enumerate((0.9, 0.2, 0.5)):
        queued.play(f"search-{number}").metrics["loss"] = loss
    container = {
        "name": "trainer",
        "image": "x",
        "args": ["train.py"],
        "resources": {"requests": {"cpu": "2"}},
    }
    await queued.create_search(
        trials={"max": 3, "parallel": 3},
        budget={"maxCostUsd": "9"},
        template={"workers": {"template": {"spec": {"containers": [container]}}}},
        labels={"kueue.x-k8s.io/queue-name": "team"},
    )
    async with queued.operator(kueue=True):
        found = await queued.until_search(
            lambda s: told(s, "value") == 2 and told(s, "reason") == 1  # two train, one waits
        )
        status = found["status"]
        assert "3 run (1 of them waits: Queued)" in status["message"]
        (held,) = [one for one in status["history"] if one.get("reason") == "Queued"]
        number, job = held["number"], f"search-{held['number']}"
        assert (held["phase"], held.get("usd", "0")) == ("Running", "0")
        assert "Queue: the job waits" in held["message"]
        assert sum(Decimal(one["capUsd"]) for one in status["history"]) <= 9
        assert Decimal(held["capUsd"]) > 0, "its part stays its own while it waits"
        assert Decimal(status["cost"]["reservedUsd"]) >= Decimal(held["capUsd"])
        asked = [await workloads(queued, f"search-{one}") for one in range(3)]
        assert [len(some) for some in asked] == [1, 1, 1]
        assert await queued.pods(job) == []

        queued.play(f"search-{(number + 1) % 3}").may_finish.set()
        await queued.until_phase("Running", job)
        await queued.until_search(lambda s: "reason" not in s["history"][number])
        for one in range(3):
            queued.play(f"search-{one}").may_finish.set()
        found = await queued.until_search(lambda s: s.get("phase") == "Succeeded")
    assert [one["phase"] for one in found["status"]["history"]] == ["Succeeded"] * 3
    assert found["status"]["best"]["trial"] == 1
    assert "message" not in found["status"]["history"][number]
