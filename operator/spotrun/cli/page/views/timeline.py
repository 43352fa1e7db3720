"""The timeline of a job: lives of workers, and what happened when. Pure.

A cluster forgets pods at once and Events after an hour. A begin or an end that is not known is
marked, and never guessed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from spotrun.api.names import LABEL_CAPACITY
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.jobs.workers import Place, numbers, state_of, worker_id_of
from spotrun.cli.page.views.fleet import epoch, number
from spotrun.cli.page.views.history import Sample, Stall, stalls_of
from spotrun.cli.report.content import Moment
from spotrun.observe.kube_objects import EventObject, PodObject
from spotrun.state.names import worker_id_of as worker_id_in

_TAKEN = re.compile(r"worker (\d+)(?: on node (\S+?))?,? was taken away(?:, and (\d+) more)?")
_ASSIGNED = re.compile(r"Successfully assigned \S+ to (\S+)")
_SECONDS_BEFORE = 30
"""The time shown before the first moment that is known."""
_POD_GONE_SECONDS = 90
"""The pods of a node that is gone stay for up to a minute: kube-controller-manager looks for them
every 20 s, and waits 40 s more (podgc's quarantineTime)."""


class Life(msgspec.Struct, frozen=True, rename="camel"):
    """A worker from its begin to its end; None where that is not known, or not yet."""

    worker: int
    pod: str = ""
    node: str = ""
    zone: str = ""
    capacity: str = ""
    state: str = ""
    begin: float | None = None
    end: float | None = None
    is_over: bool = False
    is_lost: bool = False


class Mark(msgspec.Struct, frozen=True, rename="camel"):
    """Something that happened."""

    at: float
    kind: str  # loss, world, checkpoint, decision
    what: str
    text: str
    size: int | None = None
    worker: int | None = None


class Timeline(msgspec.Struct, frozen=True, rename="camel"):
    """The whole picture; the page draws it to the present until the job has ended."""

    begin: float
    end: float | None
    lives: tuple[Life, ...]
    marks: tuple[Mark, ...]
    samples: tuple[Sample, ...]
    stalls: tuple[Stall, ...] = ()


def life_of(pod: PodObject, place: Place, pool_zone: str = "") -> Life:
    """Return the life of a worker that has a pod."""
    ended = [
        one.state.terminated.finished_at
        for one in pod.status.container_statuses
        if one.state.terminated and one.state.terminated.finished_at
    ]
    is_over = pod.status.phase in ("Succeeded", "Failed")
    known = (place.zone, pod.metadata.annotations.zone, pool_zone)
    return Life(
        worker=worker_id_of(pod),
        pod=pod.metadata.name,
        node=pod.spec.node_name or "",
        zone=next((one for one in known if one not in ("", "-")), ""),
        capacity=pod.metadata.labels.get(LABEL_CAPACITY, ""),
        state=state_of(pod),
        begin=epoch(pod.metadata.creation_timestamp),
        end=max(filter(None, map(epoch, ended)), default=None) if is_over else None,
        is_over=is_over,
    )


def ended(life: Life, at: datetime) -> Life:
    """Return a life whose pod is gone: with its known end, else the time when it was missed."""
    end = life.end if life.end is not None else at.timestamp()
    return msgspec.structs.replace(life, end=end, is_over=True, state="Gone")


def marks_of(job: Job, moments: Sequence[Moment], samples: Sequence[Sample]) -> tuple[Mark, ...]:
    """Return what happened, in the order of time."""
    worlds = [one.text for one in moments if one.size is not None]  # each ends with its reason
    found = [
        _mark(one)
        for one in moments
        if one.size is not None or not any(text.endswith(f"; {one.text}") for text in worlds)
    ]
    saved = job.status.checkpoint
    known = samples[0].checkpoint if samples else None  # saved before the page began
    saves = {
        one.checkpoint: one.at
        for one in reversed(samples)
        if one.checkpoint is not None and one.checkpoint != known
    }
    if saved and (at := epoch(saved.time)) is not None:
        saves[saved.step] = at
    found += [
        Mark(at, "checkpoint", "Checkpoint", f"step {step:,} is durable")
        for step, at in saves.items()
    ]
    found += _last_loss(job, found)
    return tuple(sorted(found, key=lambda one: (one.at, one.kind)))


def _last_loss(job: Job, found: Sequence[Mark]) -> Iterator[Mark]:
    """Yield the last loss from the status if no Event reports it: Events may be lost."""
    last = job.status.interruptions.last
    if last is None or any(one.worker == last.worker for one in found):
        return
    if (at := epoch(last.time)) is not None:
        where = f" on node {last.node}" if last.node else ""
        text = f"worker {last.worker}{where} was taken away"
        yield Mark(at, "loss", last.reason, text, worker=last.worker)


def _mark(one: Moment) -> Mark:
    taken = _TAKEN.search(one.text)
    is_loss = one.is_loss and taken is not None
    kind = "loss" if is_loss else "world" if one.size is not None else "decision"
    worker = int(taken[1]) if is_loss and taken else None
    return Mark(one.at.timestamp(), kind, one.what, one.text, one.size, worker)


def lives_told(job: Job, events: Sequence[EventObject]) -> dict[str, Life]:
    """Return the beginnings that the scheduler's Events report, by pod; the pod may be gone."""
    name, uid = job.metadata.name, job.metadata.uid
    found = {}
    for event in events:
        pod = event.regarding.name
        worker, assigned = worker_id_in(pod, name, uid), _ASSIGNED.match(event.note)
        if worker is not None and assigned:
            begin = epoch(event.event_time or event.deprecated_last_timestamp)
            found[pod] = Life(
                worker=worker, pod=pod, node=assigned[1], state="Gone", begin=begin, is_over=True
            )
    return found


def joined(
    job: Job,
    pools: Sequence[Pool],
    told: Mapping[str, Life],
    seen: Mapping[str, Life],
    marks: Sequence[Mark],
) -> tuple[Life, ...]:
    """Put lives together: a seen pod counts before an Event; losses end lives without an end."""
    found = list({**told, **seen}.values())
    known = {one.worker for one in found}
    for mark in marks:
        if mark.worker is not None and mark.worker not in known:
            taken = _TAKEN.search(mark.text)
            node = (taken[2] or "") if taken else ""
            found.append(Life(worker=mark.worker, node=node, state="Gone", is_over=True))
    losses = _losses(found, marks)
    capacities = _capacities(job, pools, found)
    allowed = job.spec.placement.capacity
    lives = (_with_capacity(_lost(one, losses), capacities, allowed) for one in found)
    return tuple(sorted(lives, key=lambda one: (one.worker, one.pod)))


def _losses(lives: Sequence[Life], marks: Sequence[Mark]) -> dict[int, float]:
    """Return when workers were lost; if a node takes several with it, an Event names one."""
    found = {mark.worker: mark.at for mark in marks if mark.worker is not None}
    for mark in marks:
        taken = _TAKEN.search(mark.text) if mark.worker is not None else None
        if taken is None or not taken[2] or not taken[3]:
            continue
        others = [
            one
            for one in lives
            if one.node == taken[2] and one.worker not in found and _went(one, mark.at)
        ]
        others.sort(key=lambda one: abs((one.end or mark.at) - mark.at))
        found |= {one.worker: mark.at for one in others[: int(taken[3])]}
    return found


def _went(life: Life, at: float) -> bool:
    """Whether a worker ended at about this time, though its pod may still exist."""
    is_going = life.is_over or life.state == "Leaving"
    is_then = life.end is None or abs(life.end - at) <= _POD_GONE_SECONDS
    return is_going and is_then and (life.begin is None or life.begin <= at)


def _lost(life: Life, losses: Mapping[int, float]) -> Life:
    """End a life at its loss, and not when its pod is removed, which may be a minute later."""
    at = losses.get(life.worker)
    if at is None or (life.begin is not None and at < life.begin):
        return life
    end = at if life.end is None else min(at, life.end)
    return msgspec.structs.replace(life, end=end, is_lost=True)


def _capacities(job: Job, pools: Sequence[Pool], lives: Sequence[Life]) -> dict[int, str]:
    """Return the capacity of workers from the ledger, and of the last lost node from its pool."""
    last = job.status.interruptions.last
    found: dict[int, str] = {}
    for pool in pools:
        if last is not None and pool.metadata.name == last.pool:
            there = [one.worker for one in lives if last.node and one.node == last.node]
            found |= dict.fromkeys((last.worker, *there), pool.spec.capacity)
    for rate in job.status.accumulators.rates:
        if rate.is_spot is not None:
            kind = "Spot" if rate.is_spot else "OnDemand"
            found |= dict.fromkeys(numbers(rate.workers), kind)
    return found


def _with_capacity(life: Life, capacities: Mapping[int, str], allowed: str) -> Life:
    """Fill in a capacity that no pod has any more, from the ledger or from what the job allows."""
    if life.capacity:
        return life
    known = capacities.get(life.worker) or ("" if allowed == "Mixed" else allowed)
    return msgspec.structs.replace(life, capacity=known)


def timeline(
    job: Job,
    lives: Sequence[Life],
    marks: Sequence[Mark],
    samples: Sequence[Sample],
    end: float | None,
) -> Timeline:
    """Return the picture, from the first thing that is known."""
    times = [one.begin for one in lives if one.begin is not None]
    times += [one.at for one in marks] + [one.at for one in samples[:1]]
    created = epoch(job.metadata.creation_timestamp)
    begin = min(times, default=created or 0.0) - _SECONDS_BEFORE
    return Timeline(
        begin=max(begin, created) if created is not None else begin,
        end=end,
        lives=tuple(lives),
        marks=tuple(marks),
        samples=tuple(samples),
        stalls=stalls_of(samples, number(job.status.pace.step_seconds)),
    )
