"""Worlds whose workers make no steps any more."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job


def standing(
    *seconds: float | None,
    step_seconds: float | None = 1.0,
    report: Mapping[str, bool | None] = MappingProxyType({}),
    **spec: Any,
) -> JobBuilder:
    """Return a world in which each worker has said nothing new of its progress for so long."""
    job = a_job(len(seconds), **spec).training(*range(len(seconds)))
    progress = Progress(1, 100, step_seconds=step_seconds)
    for worker_id, stands in enumerate(seconds):
        changes = {"progress": progress, "progress_for": stands, **report}
        job = job.with_worker(worker_id, ready=True, arrived=1, **changes)
    return job
