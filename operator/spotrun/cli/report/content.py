"""The content of a report: what was trained, with what, for how long, at what cost. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from spotrun.api.field_types.secret_values import LAST_APPLIED, without_secrets
from spotrun.api.names import (
    ANNOTATION_CHECKPOINT_WANTED,
    ANNOTATION_KEPT_REPORT,
    ANNOTATION_PROFILE_WANTED,
)
from spotrun.cli.cluster.installation import Installation
from spotrun.cli.jobs.advice import troubles
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.screens.bill import cost_parts, cost_remarks
from spotrun.cli.jobs.tune.axes import Axis
from spotrun.cli.text.words import amount, count, moment, percent_of, plain_usd, span, things, usd
from spotrun.observe.kube_objects import EventObject

_WORLD = re.compile(r"world (\d+): (\d+) workers?")
_SERVER_SIDE = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp")
_WRITTEN = (
    "spotrun.dev/cost-",
    str(ANNOTATION_KEPT_REPORT),
    str(ANNOTATION_CHECKPOINT_WANTED),
    str(ANNOTATION_PROFILE_WANTED),
)
"""Prefixes of annotations that the operator writes, or that ask to save and to profile."""


@dataclass(frozen=True)
class Section:
    """A part of the report: a table of two or three columns, and sentences below it."""

    title: str
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Moment:
    """Something that happened; a world has a size."""

    at: datetime
    what: str
    text: str
    size: int | None = None

    @property
    def is_loss(self) -> bool:
        """Whether a worker was taken away."""
        return self.what in ("Reclaimed", "NodeLost", "Drained", "Preempted")


@dataclass(frozen=True)
class Coordinates:
    """The trials of a search as lines over its parameters and its metric."""

    axes: tuple[Axis, ...]
    best: tuple[int, ...]  # the numbers of trials that have a value, the best first


@dataclass(frozen=True)
class Report:
    """A whole report, on a training job or on a search."""

    title: str
    state: str
    made_at: datetime
    sections: tuple[Section, ...]
    moments: tuple[Moment, ...]
    manifest: Mapping[str, Any]
    kind: str = "Training job"
    coordinates: Coordinates | None = None


def report_on(
    job: Job,
    manifest: Mapping[str, Any],
    events: Sequence[EventObject],
    known: Installation | None,
    now: datetime,
) -> Report:
    """Put a report together from the job, its events and what the installation says."""
    return Report(
        title=f"{job.metadata.namespace}/{job.metadata.name}",
        state=job.status.phase or "not seen",
        made_at=now,
        sections=(
            Section("What was trained", tuple(_training(job, now)), tuple(_remarks(job))),
            Section("With what", tuple(_means(job, known))),
            Section("What it cost", tuple(_bill(job)), tuple(filter(None, cost_remarks(job)))),
            Section("What was lost", tuple(_losses(job)), _loss_notes(job)),
        ),
        moments=moments(job, events),
        manifest=cleaned(manifest),
    )


def moments(job: Job, events: Sequence[EventObject]) -> tuple[Moment, ...]:
    """Return decisions and events in the order of time; what both report is listed once."""
    found = {}
    for one in job.status.decisions:
        if at := moment(one.time):
            found[at.replace(microsecond=0), one.why] = Moment(at, one.what, one.why)
    for event in events:
        at = moment(event.event_time or event.deprecated_last_timestamp)
        if at is not None:
            world = _WORLD.match(event.note)
            size = int(world[2]) if world else None
            what = "World" if world else event.reason
            key = at.replace(microsecond=0), event.note
            found[key] = Moment(at, what, event.note, size)
    return tuple(sorted(found.values(), key=lambda one: (one.at, one.what)))


def cleaned(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job as a user would apply it: without status and what the server added.

    A report is sent to others: values of variables that are named like secrets are left out.
    """
    metadata = {k: v for k, v in manifest.get("metadata", {}).items() if k not in _SERVER_SIDE}
    annotations = {
        name: text
        for name, text in metadata.pop("annotations", {}).items()
        if name != LAST_APPLIED and not name.startswith(_WRITTEN)
    }
    if annotations:
        metadata["annotations"] = annotations
    kept = {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind")}
    return {**kept, "metadata": metadata, "spec": without_secrets(manifest.get("spec", {}))}


def ended_at(job: Job) -> str | None:
    """Return the time at which a job was over; None while it is not."""
    for kind in ("Complete", "Failed"):
        found = job.status.condition(kind)
        if found is not None and found.status == "True":
            return found.last_transition_time
    return None


def _training(job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    begin, end = moment(job.metadata.creation_timestamp), moment(ended_at(job))
    yield "State", f"{job.status.phase or 'not seen'}: {job.status.message or job.status.reason}"
    if begin is not None:
        yield "Created", f"{begin:%Y-%m-%d %H:%M:%S} UTC"
        until = f"{end:%Y-%m-%d %H:%M:%S} UTC" if end else "not yet"
        yield "Ended", f"{until}, after {span(((end or now) - begin).total_seconds())}"
    done = job.status.progress
    if done.step is not None:
        of = f" of {count(done.total_steps)}" if done.total_steps else ""
        yield "Steps", f"{count(done.step)}{of}"
    if job.status.pace.step_seconds:
        workers = things(job.status.pace.workers or 0, "worker")
        yield "Pace", f"{job.status.pace.step_seconds} s a step with {workers}"
    if saved := job.status.checkpoint:
        yield "Newest checkpoint", f"{saved.name}, step {count(saved.step)}, of {saved.time}"


def _remarks(job: Job) -> Iterator[str]:
    for one in troubles(job):
        yield f"{one.title}: {one.message}. {one.advice}".strip()


def _means(job: Job, known: Installation | None) -> Iterator[tuple[str, str]]:
    workers = job.spec.workers
    spec: Any = workers.template.get("spec", {})
    for container in spec.get("containers", ()):
        yield "Image", str(container.get("image", ""))
        if arguments := container.get("args"):
            yield "Script", " ".join(map(str, arguments))
        if limits := container.get("resources", {}).get("limits"):
            yield "Of a worker", ", ".join(f"{k} {v}" for k, v in limits.items())
    yield "Workers", f"{workers.min} to {workers.max}, {job.spec.placement.capacity}"
    if job.status.world:
        yield "Worlds", count(job.status.world.number)
    yield "spotrun", known.version if known and known.version else "not known"


def _bill(job: Job) -> Iterator[tuple[str, str, str]]:
    total = amount(job.status.cost.usd)
    for what, value in cost_parts(job):
        yield what.strip(), f"${plain_usd(value)}", percent_of(value, total)


def _losses(job: Job) -> Iterator[tuple[str, str]]:
    taken, failed, cost = job.status.interruptions, job.status.restarts, job.status.cost
    yield "Workers taken away", count(taken.count)
    yield "Steps done again", count(taken.lost_steps)
    yield "Failures", count(failed.failures)
    if cost.lost_work_usd is not None:
        yield "Lost work", usd(cost.lost_work_usd)
    number = taken.count + failed.failures
    if number and cost.lost_work_usd is not None:
        yield "Lost work, for each loss", usd(amount(cost.lost_work_usd) / Decimal(number))


def _loss_notes(job: Job) -> tuple[str, ...]:
    notes = []
    if last := job.status.interruptions.last:
        where = f" on node {last.node}" if last.node else ""
        notes.append(f"The last: worker {last.worker}{where}, {last.reason}, at {last.time}.")
    if (failed := job.status.restarts).last_message:
        notes.append(f"The last failure: {failed.last_reason}, {failed.last_message}")
    return tuple(notes)
