"""One job as the page shows it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from spotrun.api.names import ConditionType, Phase
from spotrun.cli.jobs.advice import troubles
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.jobs.screens.bill import cost_parts, cost_remarks
from spotrun.cli.jobs.screens.reasons import answers
from spotrun.cli.jobs.workers import Place, workers_of
from spotrun.cli.page.views.fleet import JobRow, epoch, job_row, number
from spotrun.cli.page.views.history import Sample
from spotrun.cli.page.views.timeline import Life, Timeline, joined, lives_told, marks_of, timeline
from spotrun.cli.report.content import ended_at, moments
from spotrun.cli.text.look import Look
from spotrun.cli.text.words import sentence
from spotrun.observe.kube_objects import EventObject, PodObject


@dataclass(frozen=True)
class Seen:
    """A job with all that was read with it."""

    job: Job
    pods: Sequence[PodObject] = ()
    pools: Sequence[Pool] = ()
    events: Sequence[EventObject] = ()
    assignments: Sequence[EventObject] = ()  # the scheduler's
    places: Mapping[str, Place] = field(default_factory=dict)
    lives: Mapping[str, Life] = field(default_factory=dict)  # by pod
    samples: Sequence[Sample] = ()
    hidden: Sequence[str] = ()  # what the user's rights hide


class JobView(msgspec.Struct, frozen=True, rename="camel"):
    """All that the page of a job shows."""

    row: JobRow
    reason: str
    message: str
    troubles: tuple[dict[str, str], ...]
    figures: dict[str, Any]
    workers: tuple[dict[str, Any], ...]
    timeline: Timeline
    answers: tuple[dict[str, Any], ...]
    decisions: tuple[dict[str, Any], ...]
    events: tuple[dict[str, Any], ...]
    bill: tuple[tuple[str, float], ...]
    remarks: tuple[str, ...]
    notes: tuple[str, ...]


def job_view(seen: Seen, now: datetime) -> JobView:
    """Return the page of a job."""
    job, status = seen.job, seen.job.status
    told = moments(job, seen.events)
    marks = marks_of(job, told, seen.samples)
    lives = joined(job, seen.pools, lives_told(job, seen.assignments), seen.lives, marks)
    return JobView(
        row=job_row(job),
        reason=status.reason,
        message=status.message,
        troubles=tuple(
            {"title": one.title, "message": one.message, "advice": sentence(one.advice)}
            for one in troubles(job)
        ),
        figures=_figures(job),
        workers=_workers(seen),
        timeline=timeline(job, lives, marks, seen.samples, epoch(ended_at(job))),
        answers=tuple(
            {"question": one.question, "sentences": [sentence(text) for text in one.sentences]}
            for one in answers(job, seen.pools, Look(now=now))
        ),
        decisions=tuple(
            {"at": epoch(one.time), "what": one.what, "why": one.why, "numbers": one.numbers}
            for one in reversed(status.decisions)
        ),
        events=tuple(
            {
                "at": epoch(one.event_time or one.deprecated_last_timestamp),
                "what": one.reason,
                "why": one.note,
            }
            for one in reversed(seen.events)
        ),
        bill=tuple((text.strip(), float(value)) for text, value in cost_parts(job))
        if status.cost.usd is not None
        else (),
        remarks=tuple(filter(None, cost_remarks(job))),
        notes=(*seen.hidden, *_unknown(seen, lives)),
    )


def _figures(job: Job) -> dict[str, Any]:
    status, spec = job.status, job.spec
    saved, schedule = status.checkpoint, status.condition(ConditionType.ON_SCHEDULE)
    return {
        "min": spec.workers.min,
        "max": spec.workers.max,
        "capacity": spec.placement.capacity,
        "stepSeconds": number(status.pace.step_seconds),
        "samplesPerSecond": number(status.progress.samples_per_second),
        "checkpointStep": saved.step if saved else None,
        "checkpointAt": epoch(saved.time) if saved else None,
        "localStep": status.local_checkpoint and status.local_checkpoint.step,
        "localAt": epoch(status.local_checkpoint.time) if status.local_checkpoint else None,
        "world": status.world.number if status.world else None,
        "onDemandUsd": number(status.cost.on_demand_usd),
        "lostWorkUsd": number(status.cost.lost_work_usd),
        "lostSteps": status.interruptions.last and status.interruptions.lost_steps,
        "forecastUsd": number(status.cost.forecast_usd),
        "schedule": schedule.message if schedule else "",
        "isLate": schedule is not None and schedule.status == "False",
    }


def _workers(seen: Seen) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "worker": one.worker_id,
            "rank": one.rank,
            "pod": one.pod,
            "state": one.state,
            "node": one.node,
            "zone": one.zone,
            "machine": one.machine,
            "capacity": one.capacity,
            "usdPerHour": number(one.usd_per_hour),
            "created": epoch(one.created),
        }
        for one in workers_of(seen.job, seen.pods, seen.pools, seen.places)
    )


def _unknown(seen: Seen, lives: Sequence[Life]) -> list[str]:
    """Return what the picture lacks, and why."""
    found = []
    if seen.job.status.phase not in (Phase.SUCCEEDED, Phase.FAILED) and seen.samples:
        at = datetime.fromtimestamp(seen.samples[0].at).astimezone()
        found.append(
            f"Dollars and $/h are drawn from {at:%H:%M:%S} on, when this page was started: the "
            "status of a job has their present value, and no history."
        )
    if any(one.is_over and None in (one.begin, one.end) for one in lives):
        found.append(
            "A bar with an open end is a worker whose begin or end no Event reports any more: a "
            "cluster keeps Events for an hour."
        )
    return found
