from fractions import Fraction
from typing import Any

from tests.integration.money.helpers import add_node, assert_agrees, events_of, workers
from tests.meter.meter import Meter
from tests.support.cluster.operator_world import World

KEPT = {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}}
# Two workers at $9 an hour each spend half a cent a second; $1.74 are kept for the last checkpoint.
LIMIT = "1.76"


async def test_a_job_stops_at_its_budget_with_a_checkpoint_and_goes_on_when_it_is_raised(
    world: World, meter: Meter
) -> None:
    await add_node(world, "a", "36")
    budget = {"maxCostUsd": LIMIT, "warnAtPercent": [1]}
    await world.create_job(workers=workers(2), checkpoint=KEPT, budget=budget)
    async with world.operator():
        await world.until_phase("Running")
        await world.until_job(lambda s: "stopAt" in s.get("cost", {}))
        await world.until(lambda: _is_told_when_to_stop(world))
        job = await world.until_job(lambda s: s["phase"] == "Suspended" and _settled(s, "0-1"))
        status = job["status"]
        assert (status["reason"], status["suspendedBy"]) == ("BudgetExceeded", ["Budget"])
        assert status["checkpoint"]["name"] == "step-100.g1"
        assert Fraction(status["accumulators"]["usd"]) <= Fraction(LIMIT)
        await assert_agrees(job, meter)
        shown = world.cluster.kubectl("get", "tjob", "-n", world.namespace).stdout
        assert status["cost"]["budgetUsedPercent"] in shown
        [warned] = await events_of(world, "% of the budget is used")
        assert (warned["type"], warned["reason"]) == ("Warning", "BudgetWarning")

        await world.patch_job({"budget": {"maxCostUsd": "20"}})
        job = await world.until_job(lambda s: s["phase"] == "Running")
        assert job["status"]["world"]["members"] == "2-3"
        assert job["status"]["world"]["restore"] == "step-100.g1"


async def test_an_hour_costs_no_more_than_is_allowed(world: World) -> None:
    await add_node(world, "a", "36")
    budget = {"maxUsdPerHour": "20"}
    await world.create_job(workers=workers(3), checkpoint=KEPT, budget=budget)
    async with world.operator():
        job = await world.until_job(lambda s: s.get("world", {}).get("members") == "0-1")
        assert job["status"]["workers"]["allowed"] == {"size": 2, "reason": "RateLimited"}
        assert len(await world.pods()) == 2


async def _is_told_when_to_stop(world: World) -> bool:
    answers = [agent.answer for agent in world.play().agents.values()]
    return all(answer is not None and answer.stop_at is not None for answer in answers)


def _settled(status: Any, worker_ids: str) -> bool:
    return bool(status.get("settled") == worker_ids)
