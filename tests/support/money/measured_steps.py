"""Two workers that train, and tell what goes into their steps."""

from typing import Any

from spotrun.state.actions import Decision
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job, later
from tests.support.money.priced_nodes import at_work


def at_step(
    step: int, job: JobBuilder | None = None, world_number: int = 1, **shares: Any
) -> JobBuilder:
    """Two workers at $1 an hour each since an hour ago, of whom a step takes 10 s."""
    progress = Progress(world_number, step, total=1000, step_seconds=10.0, **shares)
    job = job or a_job(2).training(0, 1).with_world("0,1", formed=2000.0, store="x:1")
    trains = at_work(job, 0, 1, ready=True, arrived=world_number, progress=progress)
    return trains.with_facts(written_seconds=600.0)


def then(
    before: Decision, step: int, seconds: float, world_number: int = 1, **shares: Any
) -> Decision:
    """Return what is decided later on."""
    job = at_step(step).with_state(before.status)
    if world_number > 1:
        job = job.with_world("0,1", world_number, store="x:1")
    return at_step(step, job, world_number, **shares).decide(later(seconds))
