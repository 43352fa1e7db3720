"""Each panel shows something of a job that has been through something."""

import asyncio
import math
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from devcluster.addresses import free_port
from spotrun.runtime.controller import Controller
from spotrun.wire import Checkpoint
from tests.integration.money.helpers import PRICE
from tests.integration.monitoring.helpers import DASHBOARDS, expressions
from tests.integration.monitoring.server import Prometheus, Sample, scraping
from tests.integration.spot.helpers import (
    add_node,
    create_job,
    node_of,
    until_pools,
    until_training,
)
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times

KEPT = {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}}
TEAM = {"metadata": {"labels": {"team": "vision"}}}
PANELS_SECONDS = 240
"""Metrics that are not written at once are there within a minute or two."""
EMPTY = {
    ("fleet", "Errors: {{error}}"),
    ("fleet", "Longest waits: {{namespace}}/{{name}}"),
    ("fleet", "Preempted: {{namespace}} for {{by_namespace}}: {{how}}"),
    ("fleet", "Price of preemption: {{namespace}} for {{by_namespace}}"),
    ("job", "Steps: local tier"),
    ("job", "Age of the newest checkpoint: local tier"),
}
"""Nothing fails here, and an error that never was has no series; test_firing.py has some. The job
of these tests has no local tier either, and nobody waits or is preempted."""
FAR = 500
"""A step beyond those at which the next worlds begin: 200, 300 and so on."""


async def test_every_panel_shows_something_and_each_line_once(
    world: World, prometheus: Path, tmp_path: Path
) -> None:
    asked = {
        (dashboard.stem, panel): expr
        for dashboard in DASHBOARDS
        for panel, expr in expressions(dashboard, namespace=world.namespace, name="job").items()
        if (dashboard.stem, panel) not in EMPTY
    }
    async with AsyncExitStack() as rest, AsyncExitStack() as first_to_lead:
        elsewhere = world.operator(port=free_port(world.host))
        one = await first_to_lead.enter_async_context(elsewhere)
        await world.until(lambda: _leads(one))
        other = await rest.enter_async_context(world.operator())
        pods = {
            f"spotrun-{number}": f"{world.host}:{replica.plain.port}"
            for number, replica in enumerate((one, other))
        }
        host = world.cluster.block.pod_address()
        server = await rest.enter_async_context(
            scraping(prometheus, tmp_path, host=host, pods=pods)
        )
        await a_job_that_saves(world)
        await first_to_lead.aclose()
        await a_loss(world)
        wrong = await _until_all_right(server, asked)
    assert wrong == {}


async def a_job_that_saves(world: World) -> None:
    """Two workers on spot capacity in two zones, with a checkpoint."""
    await world.create_limit(limitUsd="1000", onExceeded="Warn")
    for zone in ("us-east-1a", "us-east-1b", "us-east-1c"):
        await add_node(world, zone, zone=zone, annotations={PRICE: "0.40"})
    await until_pools(world, 3)
    play = world.play()
    play.step_times, play.reported_steps = lambda _: Times(0.7, 0.0, 0.3), FAR
    play.sync_bytes = 10**5  # so little that a replacement may come from another zone
    play.save_seconds = 2.0
    anywhere = {"zones": "Any"}
    await create_job(world, 2, checkpoint=KEPT, placement=anywhere, suspend=True)
    await world.kube.patch(world.jobs("job"), TEAM)
    await world.patch_job({"suspend": False})
    await until_training(world, 0, 1)
    for worker_id in (0, 1):
        agent = world.agent(worker_id)
        agent.report = replace(agent.report, committed=Checkpoint("step-100.g1", 100))
    await world.until(lambda: _has_told_of(world, FAR))
    # That there is a budget is written at once, and with it how far the job is.
    await world.patch_job({"budget": {"maxCostUsd": "100"}})
    await world.until_job(lambda status: status.get("progress", {}).get("step", 0) >= FAR)


async def a_loss(world: World) -> None:
    """A node is gone without a word; nobody trains on until it is counted what must be redone."""
    world.play().reported_steps = 0
    await (await node_of(world, 1)).vanish(delete_node=True)
    await world.until_job(lambda status: status.get("interruptions", {}).get("lostSteps", 0) > 0)
    world.play().reported_steps = 2 * FAR
    await until_training(world, 0, 2)


async def _until_all_right(
    server: Prometheus, asked: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], str]:
    """Ask until every panel was right once; what is wrong with the others when patience ends.

    Once, for some show the last minute only, and not everything happens within one.
    """
    wrong = dict.fromkeys(asked, "not asked")
    loop = asyncio.get_running_loop()
    end = loop.time() + PANELS_SECONDS
    while wrong and loop.time() < end:
        answers = {one: await server.query(asked[one]) for one in wrong}
        mistakes = {one: _mistake(one[1], samples) for one, samples in answers.items()}
        wrong = {one: mistake for one, mistake in mistakes.items() if mistake is not None}
        await asyncio.sleep(0.5)
    return wrong


def _mistake(panel: str, samples: list[Sample]) -> str | None:
    """What is wrong with what a panel shows: no number, or two lines that nobody can tell apart."""
    if not any(math.isfinite(sample.value) for sample in samples):
        return f"no number among {len(samples)} series"
    lines = [_line(panel, sample.labels) for sample in samples]
    return None if len(set(lines)) == len(lines) else f"several of {sorted(lines)}"


def _line(panel: str, labels: Mapping[str, str]) -> str:
    """What Grafana writes beside a line."""
    return re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label[1], ""), panel)


async def _has_told_of(world: World, step: int) -> bool:
    """Whether the operator knows of that step: a worker goes on once its report was answered."""
    progress = world.agent(0).report.progress
    return progress is not None and progress.step > step


async def _leads(replica: Controller) -> bool:
    return replica.leads
