from decimal import Decimal
from math import nan
from typing import Any

import pytest

from devcluster.client import ApiError, Manifest, at
from spotrun.act import tuning
from tests.integration.money.helpers import PRICE, workers
from tests.integration.money.test_spend_limits import TWO_FIT, add_priced_node, until_limit
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "64", "memory": "64Gi"}
ONE = {"cpu": "1", "memory": "8Gi"}
_CONTAINER = {
    "name": "trainer",
    "image": "x",
    "args": ["train.py", "--lr=$(params.lr)"],
    "resources": {"requests": {"cpu": "1"}},
}
ONE_CORE = {"template": {"spec": {"containers": [_CONTAINER]}}}


def play_trials(world: World, *losses: float, search: str = "search") -> None:
    """Have each trial report its loss, and end."""
    for number, loss in enumerate(losses):
        play = world.play(f"{search}-{number}")
        play.metrics["loss"] = loss
        play.may_finish.set()


def trial(job: Manifest, number: int) -> Any:
    return job["status"]["history"][number]


async def test_a_search_tries_all_its_trials_and_names_the_best(world: World) -> None:
    await world.nodes.add("a", capacity=ROOM)
    play_trials(world, 0.9, 0.2, 0.5)
    await world.create_search(trials={"max": 3})
    async with world.operator():
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
    best = found["status"]["best"]
    assert (best["trial"], best["name"], best["value"]) == (1, "search-1", "0.2")
    assert found["status"]["trials"]["summary"] == "3/3"
    assert best["parameters"] == trial(found, 1)["parameters"]
    job = await world.job("search-1")
    args = job["spec"]["workers"]["template"]["spec"]["containers"][0]["args"]
    assert args == ["train.py", f"--lr={best['parameters']['lr']}"]


async def test_a_search_within_a_budget_outlives_a_node(world: World) -> None:
    """Six trials, two at once; one fails by its metric; a node is lost under another."""
    for name in ("a", "b"):
        await world.nodes.add(name, capacity=ONE, annotations={PRICE: "36"})
    losses = (0.9, 0.2, nan, 0.5, 0.4, 0.3)
    for number, loss in enumerate(losses):
        world.play(f"search-{number}").metrics["loss"] = loss
    await world.create_search(
        trials={"max": 6, "parallel": 2},
        budget={"maxCostUsd": "30"},
        template={"workers": ONE_CORE},
    )
    async with world.operator():
        await world.until_search(lambda s: s["trials"]["running"] == 2)
        await _train(world, "search-0")
        pod = (await world.pods("search-0"))[0]
        await world.nodes[pod["spec"]["nodeName"]].vanish(delete_node=True)
        await world.nodes.add("c", capacity=ONE, annotations={PRICE: "36"})
        for number in range(6):
            world.play(f"search-{number}").may_finish.set()
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
        jobs = await world.kube.list(world.jobs())
    status = found["status"]
    assert [one["phase"] for one in status["history"]] == [
        *("Succeeded", "Succeeded", "Failed", "Succeeded", "Succeeded", "Succeeded"),
    ]
    assert (status["best"]["trial"], status["trials"]["summary"]) == (1, "6/6")
    assert trial(found, 2)["reason"] == "NotANumber"
    ledgers = {
        job["metadata"]["name"]: job["status"]["accumulators"].get("usd", "0") for job in jobs
    }
    costs = {f"search-{one['number']}": one.get("usd", "0") for one in status["history"]}
    assert costs == ledgers
    total = sum(map(Decimal, ledgers.values()))
    assert Decimal(status["cost"]["usd"]) == total < 30
    caps = [Decimal(one["capUsd"]) for one in status["history"]]
    assert caps[:2] == [15, 15]
    budgets = {job["metadata"]["name"]: job["spec"]["budget"] for job in jobs}
    assert all(one["onExceeded"] == "Fail" for one in budgets.values())
    assert [Decimal(budgets[f"search-{n}"]["maxCostUsd"]) for n in range(6)] == caps
    told = await world.kube.list(at("events", world.namespace, group="events.k8s.io/v1"))
    notes = [one["note"] for one in told if one["regarding"]["kind"] == "TuningJob"]
    assert any(note.startswith("trial 1 is the best with loss 0.2") for note in notes)


async def test_a_trial_that_uses_up_its_part_is_stopped_and_the_budget_is_kept(
    world: World,
) -> None:
    await world.nodes.add("a", capacity=ONE, annotations={PRICE: "3600"})
    world.play("search-0").metrics["loss"] = 0.5
    await world.create_search(
        trials={"max": 3}, budget={"maxCostUsd": "114"}, template={"workers": ONE_CORE}
    )
    async with world.operator():
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
    [stopped, *others] = found["status"]["history"]
    assert (stopped["phase"], stopped["reason"]) == ("Stopped", "BudgetExceeded")
    assert sum(Decimal(one.get("usd", 0)) for one in [stopped, *others]) <= Decimal("114.01")
    assert found["status"]["best"]["trial"] == 0


async def test_a_spend_limit_of_the_namespace_holds_the_trials_of_a_search(world: World) -> None:
    """Of three trials that may run at once two fit; the third begins once they have ended."""
    await add_priced_node(world)
    await world.create_limit(limitUsd=TWO_FIT, period="Month")
    for number, loss in enumerate((0.9, 0.2, 0.5)):
        world.play(f"search-{number}").metrics["loss"] = loss
    await world.create_search(
        trials={"max": 3, "parallel": 3},
        template={"workers": workers(1)},
        budget={"maxCostUsd": "90"},
    )
    async with world.operator():
        limit = await until_limit(world, lambda s: s["jobs"].get("held") == 1)
        [held] = limit["heldJobs"]
        number = int(held.removeprefix("search-"))
        found = await world.until_search(lambda s: s["history"][number].get("reason"))
        assert trial(found, number)["reason"] == "SpendLimited"
        assert "raise limitUsd" in trial(found, number)["message"]
        assert not await world.pods(held)
        for other in range(3):
            world.play(f"search-{other}").may_finish.set()
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
        limit = await until_limit(world, lambda s: not s["jobs"].get("running"))
    assert [one["phase"] for one in found["status"]["history"]] == ["Succeeded"] * 3
    assert trial(found, number)["reason"] == "TrialSucceeded"
    assert "message" not in trial(found, number)
    assert Decimal(limit["spentUsd"]) <= Decimal(TWO_FIT)


async def test_a_deleted_trial_fails_and_its_cost_stays(world: World) -> None:
    await world.nodes.add("a", capacity=ONE, annotations={PRICE: "36"})
    play_trials(world, 0.9, 0.2)
    world.play("search-0").may_finish.clear()
    await world.create_search(trials={"max": 2}, template={"workers": ONE_CORE})
    async with world.operator():
        await world.until_search(lambda s: "usd" in s["history"][0])
        await world.kube.delete(world.jobs("search-0"))
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
    lost = trial(found, 0)
    assert (lost["phase"], lost["reason"]) == ("Failed", "TrialDeleted")
    total = Decimal(lost["usd"]) + Decimal(trial(found, 1).get("usd", 0))
    assert Decimal(found["status"]["cost"]["usd"]) == total > 0


async def test_a_search_stops_when_trials_get_no_better(world: World) -> None:
    await world.nodes.add("a", capacity=ROOM)
    play_trials(world, 0.2, 0.9, 0.5)
    await world.create_search(trials={"max": 9}, stopWhen={"noBetterTrials": 2})
    async with world.operator():
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
    assert found["status"]["reason"] == "NoImprovement"
    assert found["status"]["best"]["trial"] == 0
    assert found["status"]["trials"]["summary"] == "3/9"


async def test_a_trial_that_a_quota_refuses_begins_once_there_is_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_QUOTA_SECONDS", 0.2)
    await world.nodes.add("a", capacity=ROOM)
    play_trials(world, 0.9, 0.2)
    jobs, few = "count/trainingjobs.spotrun.dev", at("resourcequotas", world.namespace, "few")
    await world.kube.create(
        at("resourcequotas", world.namespace),
        {"metadata": {"name": "few"}, "spec": {"hard": {jobs: "0"}}},
    )

    async def is_kept() -> bool:
        return jobs in (await world.kube.get(few)).get("status", {}).get("hard", {})

    await world.until(is_kept)
    await world.create_search(trials={"max": 2})
    async with world.operator():
        waits = await world.until_search(
            lambda s: s.get("history", [{}])[0].get("reason") == "QuotaExceeded"
        )
        assert trial(waits, 0)["phase"] == "Pending"
        await world.kube.delete(few)
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
    assert [one["phase"] for one in found["status"]["history"]] == ["Succeeded", "Succeeded"]


async def test_limits_may_change_and_nothing_else(world: World) -> None:
    await world.create_search(trials={"max": 3}, budget={"maxCostUsd": "5"})
    path = world.searches("search")
    await world.kube.patch(path, {"spec": {"trials": {"max": 9}, "suspend": True}})
    await world.kube.patch(path, {"spec": {"budget": {"maxCostUsd": "9"}}})
    await world.kube.patch(path, {"spec": {"stopWhen": {"noBetterTrials": 5}}})
    changes: tuple[Manifest, ...] = (
        {"search": {"random": {"seed": 8}}},
        {"objective": {"metric": "accuracy"}},
        {"pruning": {"median": {}}},
        {"template": {"spec": {"priority": 3}}},
    )
    for change in changes:
        with pytest.raises(ApiError, match="cannot change, because earlier and later trials"):
            await world.kube.patch(path, {"spec": change})


async def _train(world: World, job: str) -> None:
    async def trains() -> bool:
        agents = world.play(job).agents
        return 0 in agents and agents[0].report.arrived > 0

    await world.until(trains)
