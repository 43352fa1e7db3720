"""The troubles that alerts are about, as they happen to jobs under a real operator."""

import asyncio
from decimal import Decimal
from functools import partial
from typing import Any

from devcluster.client import Manifest
from spotrun.api.field_types.text_values import WorkerIds
from tests.faults.proxy import FaultProxy
from tests.faults.rules import FOR_EVER, Rule
from tests.integration.money.helpers import PRICE, ROOM, let_time_pass, workers
from tests.integration.monitoring.server import Prometheus
from tests.support.cluster.operator_world import World

KEPT = {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}}
ONE_WORKER = {"cpu": "1", "memory": "4Gi"}
NUM_REFUSED = 8


async def job_on(world: World, name: str, kind: str, number: int = 1, **spec: Any) -> None:
    """A job whose workers go to nodes of a kind."""
    wanted = workers(number, max=number, min=1)
    wanted["template"]["spec"]["nodeSelector"] = {"kind": kind}
    await world.create_job(name, workers=wanted, scaling={"mode": "Manual"}, **spec)


async def a_job_that_trains(world: World) -> None:
    """Nothing is wrong with it yet; but it neither makes steps nor saves any."""
    await world.nodes.add(
        "priced", capacity=ROOM, labels={"kind": "priced"}, annotations={PRICE: "36"}
    )
    await job_on(world, "idle", "priced", checkpoint=KEPT)
    await world.until_phase("Running", "idle")


async def all_troubles(world: World, proxy: FaultProxy, prometheus: Prometheus) -> None:
    """One after the other, so that two cores are enough."""
    await a_price_that_nobody_knows(world)
    await a_budget_nearly_used_up(world)
    await world.create_limit(limitUsd="0.0001", onExceeded="Warn", period="Total")
    await a_budget_that_cannot_be_kept(world)
    await saves_that_fail(world)
    await workers_that_are_taken_away(world, prometheus)
    await job_on(world, "patient", "nowhere")  # no node is of this kind
    await writes_that_are_refused(world, proxy)


async def a_price_that_nobody_knows(world: World) -> None:
    await world.nodes.add("unpriced", capacity=ROOM, labels={"kind": "unpriced"})
    await job_on(world, "obscure", "unpriced")
    await world.until_phase("Running", "obscure")


async def a_budget_nearly_used_up(world: World) -> None:
    """Use up a job's budget nearly; its user suspends it then, so that it stays as it is."""
    await job_on(world, "careful", "priced")
    await world.until_phase("Running", "careful")
    await let_time_pass()
    await world.patch_job({"suspend": True}, "careful")
    job = await world.until_job(_is_paid, "careful")
    spent = Decimal(job["status"]["cost"]["usd"])
    limit = f"{spent / Decimal('0.9'):.6f}"
    await world.patch_job({"budget": {"maxCostUsd": limit, "onExceeded": "Warn"}}, "careful")


def _is_paid(status: Manifest) -> bool:
    cost = status.get("cost", {})
    return bool(
        status["phase"] == "Suspended"
        and cost.get("usdPerHour") == "0"
        and Decimal(cost["usd"])
        and status.get("settled") == "0"
    )


async def a_budget_that_cannot_be_kept(world: World) -> None:
    budget = {"maxUsdPerHour": "0.01"}
    await job_on(world, "dear", "priced", budget=budget)
    await world.until_job(lambda s: "Budget" in s.get("suspendedBy", ()), "dear")


async def saves_that_fail(world: World) -> None:
    """Let a store fail: training goes on, and the job says why it is not safe."""
    world.play("unsaved").save_failure = "the bucket does not exist (404 NoSuchBucket)"
    await job_on(world, "unsaved", "priced", checkpoint={"uri": "s3://no-such-bucket/prefix"})
    await world.until_job(_is_unsafe, "unsaved")


def _is_unsafe(status: Manifest) -> bool:
    stated = [c for c in status.get("conditions", ()) if c["type"] == "CheckpointsDurable"]
    return status["phase"] == "Running" and any("NoSuchBucket" in c["message"] for c in stated)


async def workers_that_are_taken_away(world: World, prometheus: Prometheus) -> None:
    """Both of two, twice; Prometheus has seen the job before, for it counts from what it saw."""
    for number in range(6):
        await world.nodes.add(f"haunted-{number}", capacity=ONE_WORKER, labels={"kind": "haunted"})
    await job_on(world, "haunted", "haunted", 2)
    none_yet = 'spotrun_trainingjob_interruptions_total{name="haunted"} == 0'
    await world.until(lambda: prometheus.query(none_yet))
    for members, count in (({0, 1}, 2), ({2, 3}, 4)):
        await world.until_job(partial(_trains, members), "haunted")
        lost = {pod["spec"].get("nodeName") for pod in await world.pods("haunted")} - {None}
        await asyncio.gather(*(world.nodes[name].vanish(delete_node=True) for name in lost))
        await world.until_job(partial(_has_lost, count), "haunted")


def _trains(members: set[int], status: Manifest) -> bool:
    """Whether these members train; their order of arrival says which of them is the first."""
    world = status.get("world", {"members": ""})
    return set(WorkerIds(world["members"]).numbers) == members and bool(world.get("active"))


def _has_lost(count: int, status: Manifest) -> bool:
    return bool(status.get("interruptions", {}).get("count") == count)


async def writes_that_are_refused(world: World, proxy: FaultProxy) -> None:
    """Refuse writes of some jobs, as where somebody takes rights away from the operator."""
    proxy.inject(Rule("reply", verb="patch", path="/refused-.*/status", times=FOR_EVER, status=403))
    for number in range(NUM_REFUSED):
        await job_on(world, f"refused-{number}", "nowhere")
