"""Jobs whose workers tell how long their steps take, and what a choice of size is told of them."""

from dataclasses import replace
from typing import Any

from spotrun.policies.scaling.facts import SizingFacts
from spotrun.policies.scaling.gather import sizing_facts
from spotrun.state.snapshot import Reading, Worker
from spotrun.wire import Utilization
from tests.support.jobs.builders import JobBuilder, a_worker

READING = Reading(
    world_number=1,
    windows=3,
    step_seconds=2.0,
    samples_per_step=64.0,
    compute=0.75,
    data=0.15,
    communicate=0.1,
    utilization=Utilization(gpu=0.75, cpu=0.5, memory=0.25),
)


def a_member(worker_id: int, reading: Reading | None = READING, **worker: Any) -> Worker:
    """Return a worker of world 1 that has told this."""
    made = a_worker(worker_id, ready=True, arrived=1, **worker)
    assert made.agent is not None
    return replace(made, agent=replace(made.agent, reading=reading))


def with_readings(job: JobBuilder, *readings: Reading | None) -> JobBuilder:
    """Return the job in a world of as many workers, each of which has told one of these."""
    job = job.training(*range(len(readings)))
    members = {worker_id: a_member(worker_id, one) for worker_id, one in enumerate(readings)}
    return replace(job, workers={**job.workers, **members})


def facts(job: JobBuilder) -> SizingFacts:
    """Return what a choice of size is told."""
    return sizing_facts(job.view(), job.status)
