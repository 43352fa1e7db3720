from decimal import Decimal
from typing import Any

from devcluster.client import Manifest, at
from tests.integration.money.helpers import (
    PRICE,
    add_node,
    all_settled,
    assert_agrees,
    let_time_pass,
    workers,
)
from tests.meter.meter import Meter
from tests.operator_world import World


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
        [told] = await _events(world, "the job has cost")
    assert job["metadata"]["annotations"]["spotrun.dev/cost-usd-per-hour"] == "0"
    assert told["reason"] == "Completed"


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
    container = workers(2, min=2)
    spread = {"cpu": "3", "memory": "4Gi"}
    container["template"]["spec"]["containers"][0]["resources"] = {"requests": spread}
    await world.create_job(workers=container)
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
    async with world.operator():
        await world.until_phase("Running")
        await world.until_job(lambda s: costs(s).get("usdPerHour") == "18")
        await world.kube.delete(world.jobs("job"))
        [told] = await _events(world, "the job was deleted: it has cost $")
        assert "$18.00/h at last" in told["note"]

        async def gone() -> bool:
            return await world.pods() == []

        await world.until(gone)


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


async def _events(world: World, words: str) -> list[Manifest]:
    async def told() -> list[Manifest]:
        events = await world.kube.list(at("events", world.namespace, group="events.k8s.io/v1"))
        return [event for event in events if words in event.get("note", "")]

    found: list[Manifest] = await world.until(told)
    return found
