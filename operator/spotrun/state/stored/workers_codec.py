"""The storage format of facts about workers, a part of what `codec.py` reads and writes."""

from spotrun.api import status as api
from spotrun.api.field_types.text_values import Time
from spotrun.api.status_parts.gives_way import GivesWay
from spotrun.state.stored.optional_values import moment_of, time_of
from spotrun.state.stored.workers import (
    NO_COUNTS,
    NO_INTERRUPTIONS,
    Allowed,
    GivenWay,
    Interruption,
    Interruptions,
    WorkerCounts,
)


def read_workers(stored: api.WorkersStatus | None) -> WorkerCounts:
    """Read how many workers there are."""
    if stored is None:
        return NO_COUNTS
    allowed = stored.allowed
    return WorkerCounts(
        summary=stored.summary,
        running=stored.running,
        spot=stored.spot,
        on_demand=stored.on_demand,
        allowed=Allowed(allowed.size, allowed.reason) if allowed is not None else None,
        selector=stored.selector,
    )


def write_workers(counts: WorkerCounts) -> api.WorkersStatus | None:
    """Write how many workers there are; None where the status does not say it."""
    if counts == NO_COUNTS:
        return None
    allowed = counts.allowed
    return api.WorkersStatus.model_construct(
        summary=counts.summary,
        running=counts.running,
        spot=counts.spot,
        on_demand=counts.on_demand,
        allowed=api.Allowed.model_construct(size=allowed.size, reason=allowed.reason)
        if allowed is not None
        else None,
        selector=counts.selector,
    )


def read_interruptions(stored: api.Interruptions | None) -> Interruptions:
    """Read what was taken away."""
    if stored is None:
        return NO_INTERRUPTIONS
    return Interruptions(
        count=stored.count or 0,
        lost_steps=stored.lost_steps or 0,
        last=_read_interruption(stored.last),
    )


def write_interruptions(interruptions: Interruptions) -> api.Interruptions | None:
    """Write what was taken away; None where nothing was."""
    if interruptions == NO_INTERRUPTIONS:
        return None
    return api.Interruptions.model_construct(
        count=interruptions.count or None,
        lost_steps=interruptions.lost_steps or None,
        last=_write_interruption(interruptions.last),
    )


def read_given_way(stored: GivesWay | None) -> GivenWay | None:
    """Read the room that was given to a job of higher priority."""
    if stored is None:
        return None
    return GivenWay(
        to=stored.to,
        uid=stored.uid,
        workers=stored.workers,
        since=stored.since.datetime,
        until=moment_of(stored.until),
    )


def write_given_way(given: GivenWay | None) -> GivesWay | None:
    """Write the room that was given to a job of higher priority."""
    if given is None:
        return None
    return GivesWay.model_construct(
        to=given.to,
        uid=given.uid,
        workers=given.workers,
        since=Time.of(given.since),
        until=time_of(given.until),
    )


def _read_interruption(stored: api.Interruption | None) -> Interruption | None:
    if stored is None:
        return None
    return Interruption(
        time=stored.time.datetime,
        worker=stored.worker,
        reason=stored.reason,
        pool=stored.pool,
        node=stored.node,
    )


def _write_interruption(last: Interruption | None) -> api.Interruption | None:
    if last is None:
        return None
    return api.Interruption.model_construct(
        time=Time.of(last.time),
        worker=last.worker,
        reason=last.reason,
        pool=last.pool,
        node=last.node,
    )
