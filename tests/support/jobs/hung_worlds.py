"""Worlds whose workers make no steps any more."""

from typing import Any

from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job


def standing(*seconds: float | None, step_seconds: float | None = 1.0, **spec: Any) -> JobBuilder:
    """Return a world in which each worker has said nothing new of its progress for so long."""
    job = a_job(len(seconds), **spec).training(*range(len(seconds)))
    progress = Progress(1, 100, step_seconds=step_seconds)
    for serial, stands in enumerate(seconds):
        changes = {"progress": progress, "progress_for": stands}
        job = job.with_worker(serial, ready=True, arrived=1, **changes)
    return job
