"""The history of a job, as observed while the page's server ran. Pure.

A status has only present amounts, and no cluster keeps their history. Nothing is invented for the
time before the page was opened.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from spotrun.cli.jobs.model import Job, Status
from spotrun.cli.page.views.fleet import number

MOST = 240
"""Samples per job; above that, every other one of the older half is dropped."""


LEAST_STALL_SECONDS = 60.0
STALLED_STEPS = 5.0
"""A stall: no new step for a minute, and for five times as long as a step takes."""
_LOSSES = ("loss", "train_loss", "training_loss")
"""The names under which scripts log their loss; the first one that exists is drawn."""


class Stall(msgspec.Struct, frozen=True, rename="camel"):
    """A time in which workers ran and no step was done."""

    begin: float
    end: float


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """The amounts of a job at a moment."""

    at: float
    usd: float | None
    usd_per_hour: float | None
    running: int
    step: int | None
    checkpoint: int | None
    loss: float | None = None


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
        loss=_loss_of(status),
    )


def _loss_of(status: Status) -> float | None:
    found = next((status.metrics[name] for name in _LOSSES if name in status.metrics), None)
    value = math.nan if found is None else float(found.value)
    return value if math.isfinite(value) else None


def stalls_of(samples: Sequence[Sample], step_seconds: float | None) -> tuple[Stall, ...]:
    """Return the times between samples of one step that were far longer than a step takes.

    A job without workers waits, and does not stall. Two samples of different steps prove nothing:
    a status may be written only after a minute or more.
    """
    least = max(LEAST_STALL_SECONDS, STALLED_STEPS * (step_seconds or 0.0))
    working = [one for one in samples if one.running and one.step is not None]
    runs = [list(run) for _, run in groupby(working, lambda one: one.step)]
    found = (Stall(run[0].at, run[-1].at) for run in runs)
    return tuple(one for one in found if one.end - one.begin >= least)


def with_sample(samples: Sequence[Sample], new: Sample) -> tuple[Sample, ...]:
    """Return the history with one more sample, if it differs from the last."""
    if samples and msgspec.structs.replace(samples[-1], at=new.at) == new:
        return tuple(samples)
    if len(samples) < MOST:
        return (*samples, new)
    half = len(samples) // 2
    return (*samples[:half:2], *samples[half:], new)
