"""Jobs in mode Auto against a real API server: their agents' steps follow a curve."""

import asyncio
from typing import Any

import pytest

from devcluster.client import at
from spotrun.api.names import ANNOTATION_NODE_USD_PER_HOUR
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Rule
from tests.integration.scaling.helpers import (
    AT_ONCE,
    ROOMY,
    an_autoscaler,
    events_of,
    size_of,
    until_reason,
    until_trained,
)
from tests.plans.replica import deployed
from tests.support.cluster.operator_world import PATIENCE_SECONDS, World
from tests.support.cluster.scripted_agent import Times


def linear(size: int) -> Times:
    return Times(8 / size)


def well_used(size: int) -> Times:
    return Times(0.7, 0.0, 0.3)


def starving(size: int) -> Times:
    """Data come no faster for more workers, and these wait for them nearly all of the time."""
    return Times(1 / size, 10 - 1 / size)


def useless_beyond_two(size: int) -> Times:
    """More than two are no faster, though nothing shows it."""
    return Times(8 / min(size, 2))


async def a_job(world: World, steps: Any, replicas: int, **spec: Any) -> None:
    """At most four workers; what utilization justifies is done at once."""
    world.play().step_times = steps
    workers = {"min": 1, "max": 4, "replicas": replicas, **spec.pop("workers", {})}
    await world.create_job(workers=workers, scaling={**AT_ONCE, **spec.pop("scaling", {})}, **spec)


async def test_a_busy_job_grows_as_far_as_it_pays(world: World) -> None:
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, linear, 2)
    async with world.operator():
        await until_trained(world, 4)
        job = await until_reason(world, "AtLargestSize")
        assert job["status"]["scaling"]["efficiency"] == {"2": "1", "4": "1"}
        assert job["status"]["scaling"]["decisions"] == {"UtilizationHigh": 1, "AtLargestSize": 1}
        grown = [one for one in job["status"]["decisions"] if one["what"] == "Grow"]
        assert [one["numbers"]["reason"] for one in grown] == ["UtilizationHigh"]
        events = await world.until(lambda: events_of(world, "UtilizationHigh"))
        assert [event["note"] for event in events] == [grown[0]["why"]]


async def test_a_job_that_is_well_used_stays_and_says_so_once(world: World) -> None:
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, well_used, 2)
    async with world.operator():
        job = await until_reason(world, "WithinTolerance")
        assert job["spec"]["workers"]["replicas"] == 2
        stays = [one["why"] for one in job["status"]["decisions"] if one["what"] == "Stay"]
        assert stays == ["2 workers: CPU 70% of a target of 70%; within its tolerance"]


async def test_a_job_that_waits_for_its_data_gives_workers_back(world: World) -> None:
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, starving, 4)
    async with world.operator():
        await until_trained(world, 1)
        await until_reason(world, "AtSmallestSize")
        await world.until(lambda: _running(world, 1))


async def test_a_growth_that_brings_nothing_is_taken_back(world: World) -> None:
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, useless_beyond_two, 2, workers={"sizes": [1, 2, 4]})
    async with world.operator():
        job = await until_reason(world, "EfficiencyLow")
        assert job["status"]["scaling"]["efficiency"] == {"2": "1", "4": "0.5"}
        await until_trained(world, 2)
        job = await until_reason(world, "TriedBefore")
        [rejected] = job["status"]["scaling"]["rejected"]
        assert (rejected["workers"], rejected["efficiency"]) == (4, "0")
        assert job["spec"]["workers"]["replicas"] == 2


async def test_what_cannot_be_had_is_not_waited_for_and_joins_when_it_comes(world: World) -> None:
    await world.nodes.add("a", capacity={"cpu": "3", "memory": "64Gi"})
    container = {
        "name": "trainer",
        "image": "x",
        "args": ["train.py"],
        "resources": {"requests": {"cpu": "1"}},
    }
    template = {"spec": {"containers": [container]}}
    await a_job(world, linear, 2, workers={"template": template})
    async with world.operator():
        job = await world.until_job(
            lambda s: s.get("world", {}).get("active") and size_of(s["world"]["members"]) == 3
        )
        assert job["spec"]["workers"]["replicas"] == 4
        allowed = {"size": 3, "reason": "WaitingForCapacity"}
        await world.until_job(lambda s: s["workers"]["allowed"] == allowed)
        await until_reason(world, "NoCapacity")
        await world.nodes.add("b", capacity={"cpu": "3", "memory": "64Gi"})
        await until_trained(world, 4)


async def test_no_more_are_asked_for_than_an_hour_may_cost(world: World) -> None:
    """A quarter of a node that costs $4 an hour each; three and a half may be spent."""
    price = {str(ANNOTATION_NODE_USD_PER_HOUR): "4"}
    await world.nodes.add("a", capacity=ROOMY, annotations=price)
    quarter = {"requests": {"cpu": "16", "memory": "16Gi"}}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "resources": quarter}
    workers = {"template": {"spec": {"containers": [container]}}}
    await a_job(world, linear, 2, workers=workers, budget={"maxUsdPerHour": "3.5"})
    async with world.operator():
        await until_trained(world, 3)
        job = await until_reason(world, "BudgetLimit")
        assert job["spec"]["workers"]["replicas"] == 3
        assert (await world.pods())[-1]["metadata"]["labels"]["spotrun.dev/worker-id"] == "2"


async def test_in_mode_manual_the_size_is_an_autoscalers(world: World) -> None:
    """A real one, of the controller manager: what it does without metrics is to keep its limits."""
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, linear, 1, scaling={"mode": "Manual"})
    async with world.operator():
        await world.until_phase("Running")
        path = at("horizontalpodautoscalers", world.namespace, group="autoscaling/v2")
        await world.kube.create(path, an_autoscaler())
        job = await until_trained(world, 2)
        assert "scaling" not in job["status"]


@pytest.mark.parametrize("fault", ["crash_before", "crash_after"])
async def test_an_operator_killed_at_the_write_of_a_size_is_followed_by_one_that_knows(
    world: World, fault: Any
) -> None:
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, linear, 2)
    admin = world.cluster.admin
    async with FaultProxy(admin.server, admin.ssl_context()) as proxy:
        rule = proxy.inject(Rule(fault, verb="patch", path="/scale"))
        async with deployed(world, proxy.url) as [deployment]:
            proxy.on_crash = deployment.kill
            await until_trained(world, 4)
            job = await until_reason(world, "AtLargestSize")
            assert (rule.fired, deployment.num_kills) == (1, 1)
            assert job["status"]["scaling"]["decisions"] == {
                "UtilizationHigh": 1,
                "AtLargestSize": 1,
            }


async def test_a_size_that_is_written_in_between_is_not_overwritten(world: World) -> None:
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, linear, 2)
    admin = world.cluster.admin
    async with FaultProxy(admin.server, admin.ssl_context()) as proxy:
        rule = proxy.inject(Rule("hold", verb="patch", path="/scale"))
        async with deployed(world, proxy.url):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await rule.struck.wait()
            await world.patch_job({"workers": {"replicas": 3}})
            rule.gate.set()
            job = await until_trained(world, 4)
            first, *_ = [request for request in proxy.log if request.path.endswith("/scale")]
            assert first.status == 409
            made = [one["why"].partition(":")[0] for one in job["status"]["decisions"]]
            ours = [one for one in made if one.endswith("workers")]
            assert ours[:3] == ["2 -> 4 workers", "3 instead of 4 workers", "3 -> 4 workers"]


async def test_a_size_that_somebody_else_writes_is_gone_on_from(world: World) -> None:
    await world.nodes.add("a", capacity=ROOMY)
    await a_job(world, well_used, 2)
    async with world.operator():
        await until_reason(world, "WithinTolerance")
        scaled = world.cluster.kubectl(
            "scale", "tjob", "job", "--replicas", "3", "-n", world.namespace
        )
        assert "scaled" in scaled.stdout
        job = await until_trained(world, 3)
        assert job["status"]["scaling"]["size"] == 3
        counted = await world.until_job(
            lambda s: s["scaling"]["decisions"].get("WithinTolerance") == 2
        )
        assert counted["status"]["scaling"]["decisions"]["ReplicasSet"] == 1


async def _running(world: World, count: int) -> bool:
    pods = await world.pods()
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    return len(running) == count
