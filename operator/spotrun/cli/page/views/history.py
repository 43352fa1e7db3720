"""The course of a job, as it was seen while the page's server ran. Pure.

A status has the amounts of now, and no course of them: no cluster keeps that. What was there before
the page was opened is not made up.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from spotrun.cli.jobs.model import Job
from spotrun.cli.page.views.fleet import number

MOST = 240
"""Samples a job; with more, every other one of the older half goes."""


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """The amounts of a job at a moment."""

    at: float
    usd: float | None
    usd_per_hour: float | None
    running: int
    step: int | None
    checkpoint: int | None


def sample_of(job: Job, now: datetime) -> Sample:
    """Return what is kept of a job's state."""
    status = job.status
    return Sample(
        at=round(now.timestamp(), 1),
        usd=number(status.cost.usd),
        usd_per_hour=number(status.cost.usd_per_hour),
        running=status.workers.running or 0,
        step=status.progress.step,
        checkpoint=status.checkpoint.step if status.checkpoint else None,
    )


def with_sample(samples: Sequence[Sample], new: Sample) -> tuple[Sample, ...]:
    """Return the course with one more sample; nothing new is no sample."""
    if samples and msgspec.structs.replace(samples[-1], at=new.at) == new:
        return tuple(samples)
    if len(samples) < MOST:
        return (*samples, new)
    half = len(samples) // 2
    return (*samples[:half:2], *samples[half:], new)
