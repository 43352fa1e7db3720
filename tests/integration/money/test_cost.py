from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from devcluster.client import Manifest, at
from spotrun.runtime.controller import Controller
from tests.integration.money.helpers import (
    PRICE,
    ROOM,
    ROUNDING,
    add_node,
    all_settled,
    assert_agrees,
    events_of,
    let_time_pass,
    workers,
)
from tests.meter.meter import Meter
from tests.support.cluster.operator_world import GROUP, World
from tests.support.cluster.scripted_agent import Times

PRICE_OF_LOSS = "spotrun.dev/interruption-usd"
POOL = "pool"
"""The label of nodes that says which pool they are in."""


def costs(status: Manifest) -> Any:
    return status.get("cost", {})


async def test_a_job_costs_its_share_of_its_nodes(world: World, meter: Meter) -> None:
    await add_node(world, "a", "36")
    await world.create_job(workers=workers(2))
    async with world.operator():
        both = "18"  # a quarter of the node each
        job = await world.until_job(lambda s: costs(s).get("usdPerHour") == both)
        assert job["status"]["cost"]["pricing"] == "Complete"
        await world.until_phase("Running")
        before = _shown_cost(world)
        await let_time_pass()
        world.play().may_finish.set()
        job = await world.until_job(all_settled)
        await assert_agrees(job, meter)
        assert job["status"]["cost"]["usdPerHour"] == "0"
        assert before < _shown_cost(world) == Decimal(job["status"]["cost"]["usd"])
        job = await _annotated(world, job)
        [told] = await events_of(world, "the job has cost")
    assert job["metadata"]["annotations"]["spotrun.dev/cost-usd-per-hour"] == "0"
    assert told["reason"] == "Completed"


async def test_each_worker_says_what_its_loss_would_cost(world: World) -> None:
    await add_node(world, "a", "36")
    await world.create_job(workers={**workers(2), "min": 2})  # neither can train alone
    world.play().step_times = lambda _: Times(0.01)
    async with world.operator():
        await world.until_job(lambda s: "interruptionUsd" in costs(s))

        async def prices() -> list[str]:
            pods = await world.pods()
            said = [pod["metadata"]["annotations"].get(PRICE_OF_LOSS) for pod in pods]
            return said if len(said) == 2 and all(said) else []

        for price in await world.until(prices):
            assert Decimal(price) == pytest.approx(Decimal(3), rel=Decimal("0.01"))  # 10 min at $18


async def test_the_price_of_the_time_counts(world: World, meter: Meter) -> None:
    await add_node(world, "a", "4")
    await world.create_job(workers=workers(1))
    async with world.operator():
        await world.until_phase("Running")
        await let_time_pass(1)
        node = {"metadata": {"annotations": {PRICE: "40"}}}
        await world.kube.patch(at("nodes", None, "a"), node)
        await let_time_pass(1)
        world.play().may_finish.set()
        job = await world.until_job(all_settled)
        await assert_agrees(job, meter, exact=False)


async def test_the_cost_is_told_by_pool_and_no_counter_falls_with_an_operator(
    world: World, meter: Meter
) -> None:
    await _add_pool(world, "a", capacity="Reserved", usdPerHour="12.5")
    await _add_pool(world, "b", capacity="OnDemand", usdPerHour="36")
    await world.create_job(workers=_one_to_a_node(2))
    async with world.operator() as operator:
        await world.until_phase("Running")
        await let_time_pass()
        world.play().may_finish.set()
        job = await world.until_job(all_settled)
        await assert_agrees(job, meter)
        shown = {one["pool"]: float(one["usd"]) for one in job["status"]["cost"]["byPool"]}
        await world.until(lambda: _tells(world, operator, shown))
    async with world.operator() as operator:
        await world.until(lambda: _tells(world, operator, shown))
    metered = meter.usd_by(POOL, "job", datetime.fromisoformat(job["status"]["cost"]["asOf"]))
    told = job["status"]["accumulators"]["byPool"]
    assert {one["pool"] for one in told} == set(metered) == set(shown)
    assert all(abs(Fraction(one["usd"]) - metered[one["pool"]]) < ROUNDING for one in told)


async def test_the_time_in_which_training_stands_still_to_save_has_a_price(world: World) -> None:
    await add_node(world, "a", "36")
    play = world.play()
    play.step_times, play.save_seconds = lambda _: Times(0.0001), 1.0
    await world.create_job(workers=workers(1))
    async with world.operator():
        await world.until_phase("Running")
        await world.until(lambda: _has_told_of_saving(world))
        await let_time_pass()
        play.may_finish.set()
        job = await world.until_job(all_settled)
    assert job["status"]["cost"]["waste"]["checkpointUsd"] == "0.0025"  # a second at $9/h


async def test_an_unknown_price_is_shown_as_partial_and_never_as_nothing(world: World) -> None:
    await add_node(world, "a")
    await world.create_job(workers=workers(1))
    async with world.operator():
        job = await world.until_job(lambda s: costs(s).get("pricing") == "Partial")
        assert "usd" not in job["status"]["cost"]
        stated = {c["type"]: c for c in job["status"]["conditions"]}["PricingComplete"]
        assert (stated["status"], stated["reason"]) == ("False", "PriceUnknown")
        assert PRICE in stated["message"]


async def test_of_a_node_that_vanishes_its_last_sign_of_life_counts(
    world: World, meter: Meter
) -> None:
    await add_node(world, "a", "36")
    await add_node(world, "b", "36")
    await world.create_job(workers=_one_to_a_node(2))
    async with world.operator():
        await world.until_phase("Running")
        await let_time_pass()
        await world.nodes["b"].vanish(delete_node=True)
        await world.until_job(lambda s: s.get("interruptions", {}).get("count") == 1)
        await add_node(world, "c", "36")
        await world.until_phase("Running")
        world.play().may_finish.set()
        job = await world.until_job(all_settled)
        await assert_agrees(job, meter, exact=False)


async def test_a_job_that_is_deleted_while_it_runs_says_its_cost_and_holds_nothing_back(
    world: World,
) -> None:
    await add_node(world, "a", "36")
    await world.create_job(workers=workers(2))
    async with world.operator() as operator:
        await world.until_phase("Running")
        job = await world.until_job(lambda s: costs(s).get("usdPerHour") == "18")
        await let_time_pass()
        await world.kube.delete(world.jobs("job"))
        [told] = await events_of(world, "the job was deleted: it had cost $")
        assert "$18.00/h at last" in told["note"]
        [usd] = _by_pool(await _read(world, operator), "cost_usd_total").values()
        # Two seconds more at half a cent each.
        assert Decimal(str(usd)) >= Decimal(job["status"]["cost"]["usd"]) + Decimal("0.01")
        await world.until_no_pods()


async def test_labels_by_which_costs_are_grouped_are_copied_to_pods(world: World) -> None:
    await add_node(world, "a", "36")
    body = await world.create_job(workers=workers(1), suspend=True)
    labels = {"metadata": {"labels": {"team": "vision", "other": "x"}}, "spec": {"suspend": False}}
    await world.kube.patch(world.jobs(body["metadata"]["name"]), labels)
    async with world.operator():
        await world.until_phase("Running")
        [pod] = await world.pods()
    assert pod["metadata"]["labels"]["team"] == "vision"
    assert "other" not in pod["metadata"]["labels"]


def _one_to_a_node(number: int) -> Any:
    wanted = workers(number, min=number)
    spread = {"requests": {"cpu": "3", "memory": "4Gi"}}
    wanted["template"]["spec"]["containers"][0]["resources"] = spread
    return wanted


async def _add_pool(world: World, name: str, **spec: str) -> None:
    """A pool of that price, and a node in it that is marked with the pool's name."""
    pool = f"{world.namespace}-{name}"
    body = {"apiVersion": GROUP, "kind": "CapacityPool", "metadata": {"name": pool}}
    body["spec"] = {"nodeSelector": {POOL: pool}, **spec}
    await world.kube.create(at("capacitypools", group=GROUP), body)
    await world.nodes.add(name, capacity=ROOM, labels={POOL: pool})


async def _has_told_of_saving(world: World) -> bool:
    progress = world.agent(0).report.progress
    return progress is not None and progress.checkpoint_seconds is not None


async def _tells(world: World, operator: Controller, shown: dict[str, float]) -> bool:
    """Whether Prometheus would read these sums by pool, with what was corrected since."""
    samples = await _read(world, operator)  # once: a new operator learns of the job meanwhile
    first = _by_pool(samples, "pool_cost_usd_total")
    corrected = _by_pool(samples, "pool_cost_corrected_usd")
    told = {pool: usd + corrected.get(pool, 0.0) for pool, usd in first.items()}
    assert told.keys() == corrected.keys()
    return all(abs(told.get(pool, 0.0) - usd) < 1e-9 for pool, usd in shown.items())


async def _read(world: World, operator: Controller) -> list[Sample]:
    """What Prometheus would read."""
    url = f"http://{world.host}:{operator.plain.port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        families = text_string_to_metric_families(await response.text())
        return [sample for family in families for sample in family.samples]


def _by_pool(samples: list[Sample], figure: str) -> dict[str, float]:
    """One figure, by pool where that is said."""
    name = f"spotrun_trainingjob_{figure}"
    return {s.labels.get("pool", ""): s.value for s in samples if s.name == name}


def _shown_cost(world: World) -> Decimal:
    """What `kubectl get` shows under COST."""
    head, row = world.cluster.kubectl("get", "tjob", "-n", world.namespace).stdout.splitlines()
    start = head.index("COST")
    return Decimal(row[start:].split()[0])


async def _annotated(world: World, job: Manifest) -> Manifest:
    """The job once its annotations say what its status says."""
    final = job["status"]["cost"]["usd"]

    async def told() -> Manifest | None:
        found = await world.job()
        said = found["metadata"].get("annotations", {}).get("spotrun.dev/cost-usd")
        return found if said == final else None

    annotated: Manifest = await world.until(told)
    return annotated
