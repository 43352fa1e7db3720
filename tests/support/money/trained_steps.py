"""Two workers that do a step in ten seconds, priced on spot and on demand."""

from dataclasses import replace
from typing import Any

from spotrun.money.units import UsdPerHour
from spotrun.state.actions import Decision
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job
from tests.support.money.priced_nodes import a_node, at_work

# Two workers at $1 an hour each, steps of 10 s; the like of their node on demand: $3 each.
NODE = replace(a_node(), on_demand_usd_per_hour=UsdPerHour(12))


def training_at(
    step: int, world_number: int = 1, job: JobBuilder | None = None, **worker: Any
) -> JobBuilder:
    """Return the job at a step of the world with this number."""
    progress = Progress(world_number, step, total=1000, samples=step, step_seconds=10.0)
    job = job or a_job(2).training(0, 1).with_world("0-1", restore="step-100.g0", store="x:1")
    trains = {"ready": True, "arrived": world_number, "progress": progress, "node": NODE, **worker}
    return at_work(job, 0, 1, **trains).with_facts(written_seconds=91.0)


def after(job: JobBuilder, decision: Decision) -> JobBuilder:
    """Return the job as it is stored then."""
    return job.with_state(decision.status)
