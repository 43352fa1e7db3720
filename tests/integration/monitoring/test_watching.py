"""A real Prometheus that watches a real operator has something to show on every panel."""

from dataclasses import replace
from pathlib import Path

from spotrun.wire import Checkpoint, Progress
from tests.integration.monitoring.helpers import (
    ALERTS,
    DASHBOARDS,
    Prometheus,
    expressions,
    watching,
)
from tests.operator_world import World

ROOM = {"cpu": "4", "memory": "16Gi"}
LAST = "spotrun_trainingjob_lost_work_cost_usd_total"  # of the series that become known
RIGHTLY_EMPTY = {
    "Errors: {{error}}",  # nothing fails here
    "Size: {{state}}",  # nobody scales the job
    "Utilization: {{resource}}",
}


async def test_every_panel_has_something_to_show(
    world: World, program: Path, tmp_path: Path
) -> None:
    await world.nodes.add("a", capacity=ROOM, annotations={"spotrun.dev/usd-per-hour": "36"})
    place: dict[str, object] = {"volume": {"emptyDir": {}}}
    await world.create_job(checkpoint=place, budget={"maxCostUsd": "50", "onExceeded": "Warn"})
    async with world.operator() as operator:
        await world.until_phase("Running")
        target = f"{world.host}:{operator.plain.port}"
        async with watching(program, target, world.host, tmp_path) as prometheus:
            await train(world)
            await world.until(lambda: prometheus.query(LAST))
            assert await empty_panels(world, prometheus) == RIGHTLY_EMPTY
            assert await unhealthy_alerts(prometheus) == {}
            assert (await prometheus.ask("alerts"))["alerts"] == []


async def train(world: World) -> None:
    """Go forward, lose steps, and do them again; a checkpoint is news, a step alone is not."""
    for step in (200, 300, 250, 400):
        agent = world.agent(0)
        saved = Checkpoint(f"step-{step}.g1", step)
        progress = Progress(1, step, 1000, samples=8 * step, step_seconds=0.01)
        agent.report = replace(agent.report, progress=progress, committed=saved)
        await world.until_job(lambda status, step=step: status["progress"]["step"] == step)  # type: ignore[misc]


async def empty_panels(world: World, prometheus: Prometheus) -> set[str]:
    """What shows nothing, by panel and legend."""
    found: set[str] = set()
    for dashboard in DASHBOARDS:
        asked = expressions(dashboard, namespace=world.namespace, name="job")
        found |= {title for title, expr in asked.items() if not await prometheus.query(expr)}
    return found


async def unhealthy_alerts(prometheus: Prometheus) -> dict[str, str]:
    """Alerts that Prometheus cannot evaluate, with its words."""
    groups = (await prometheus.ask("rules"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == {file.stem for file in ALERTS}
    return {rule["name"]: rule["lastError"] for rule in rules if rule["health"] == "err"}
