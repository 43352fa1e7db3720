"""The rate of writes: a new status is written at once where others act on it, else later.

A gang of hundreds starts and ends within seconds; a write for each worker would be noise to people
and load to the API server.
"""

from zlib import crc32

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.statements import Condition, RecordedDecision
from spotrun.state.stored.training import AcknowledgedCheckpoint
from spotrun.state.view import FINISHED
from spotrun.state.world_members import training

REFRESH_SECONDS = 60.0
LATEST_REFRESH_SECONDS = 90.0
"""The progress of a training may be this old; between the two limits each job has a pace of its
own."""
TRIAL_SECONDS = 5.0
"""The values of a trial may be this old: a search stops trials and begins others by them. Those of
a job with `stopWhen` as well: each that is written is judged, and no other."""
GATHER_SECONDS = 2.0
"""The number of running workers, and which have failed or are settled, may be this old."""
LAST_SECONDS = 5.0
"""The same of a job that is over, until its last worker is settled: they end within seconds."""
FIRST_SECONDS = 5.0
"""The first news of a job may be this old: that its first workers have a node, its first steps, the
first forecast of its end, its first checkpoint. Jobs that train or are over by then save a
write."""
SAVED_SECONDS = 30.0
"""A later checkpoint may be so old: where it is saved every few seconds, not each is a write."""
WORDS_SECONDS = 10.0
"""Why a job does not start, or how many of its workers run until it trains, may be so old: several
say so, one after the other."""


def refresh_seconds(job: JobSnapshot) -> float:
    """A job's pace. Jobs that started together would else be written together, minute by minute.

    A thousand at once keep an API server on two cores busy for eight seconds, and a worker lost in
    these waits for up to 1.5. With a budget workers are told at each write how long they may stay,
    and what they were told has to be fresh.
    """
    if job.is_trial or job.spec.stop_when is not None or job.spec.stages is not None:
        return TRIAL_SECONDS
    if job.spec.budget is not None:
        return REFRESH_SECONDS
    share = crc32(job.uid.encode()) / 2**32
    return REFRESH_SECONDS + share * (LATEST_REFRESH_SECONDS - REFRESH_SECONDS)


def seconds_to_write(
    old: JobState,
    new: JobState,
    written_seconds: float,
    refresh_seconds: float = REFRESH_SECONDS,
) -> float:
    """Return how long the new status can wait; 0 or less: no longer; infinity: no change."""
    if new == old:
        return float("inf")
    if _urgent(new) != _urgent(old) or _is_set_back(old, new):
        return 0.0
    soon = (
        (_counted, LAST_SECONDS if _ends(new) else GATHER_SECONDS),
        (_shown, _shown_seconds(old, new)),
        (_begun, FIRST_SECONDS),
        (_why_it_waits, WORDS_SECONDS),
        (_saved, SAVED_SECONDS),
    )
    waits = (seconds for part, seconds in soon if part(new) != part(old))
    # Where a metric is waited for, a job that saves often is no older than one that does not.
    return min(next(waits, refresh_seconds), refresh_seconds) - written_seconds


def ends_trial(job: JobSnapshot, new: JobState) -> bool:
    """Whether a trial has no worker any more that costs something: its search waits for that."""
    given_out = new.next_worker_id or 0
    return job.is_trial and job.status.settled.size < given_out <= new.settled.size


def _urgent(status: JobState) -> tuple[object, ...]:
    """Return what somebody acts on: agents, users, the operator after a restart."""
    conditions = tuple(
        (c.type, c.status, _why(c.reason)) for c in status.conditions if not _goes_without_saying(c)
    )
    return (
        Phase.PENDING if _starts(status) else status.phase,
        _why(status.reason),
        status.suspended_by,
        None if status.phase in FINISHED else status.world,
        status.next_worker_id,
        status.lost,
        status.restarts,
        status.rejections,
        status.unused,
        status.gives_way,
        _room_made(status),
        status.orders,
        status.stop_when.decided_at,
        (status.stage.index, status.stage.ends_since) if status.stage is not None else None,
        _size(status),
        status.checkpoint if status.suspended_by else None,
        conditions,
    )


def _room_made(status: JobState) -> tuple[RecordedDecision, ...]:
    """Return what is said of room that others make: it is known only until it is used."""
    return tuple(one for one in status.decisions if one.what == Reason.MAKES_ROOM.value)


def _shown_seconds(old: JobState, new: JobState) -> float:
    """Return how old the number of running workers may be: short while a gang starts."""
    if _ends(new):
        return LAST_SECONDS
    if not _starts(new):
        return GATHER_SECONDS
    return FIRST_SECONDS if old.phase is not new.phase else WORDS_SECONDS


def _starts(status: JobState) -> bool:
    return status.phase in {Phase.PENDING, Phase.STARTING}


def _why(reason: str | None) -> str | None:
    """Why nobody trains; of a gang that starts, nodes for most and for all come within seconds."""
    is_starting = reason == Reason.WAITING_FOR_WORKERS.value
    return Reason.WAITING_FOR_CAPACITY.value if is_starting else reason


def _is_set_back(old: JobState, new: JobState) -> bool:
    """Whether steps come again in another world: soon they are caught up, and nobody has seen it.

    Once in a world, for it is the workers who say so.
    """
    is_more = old.interruptions.lost_steps != new.interruptions.lost_steps
    return is_more and _counted_in(old) != _counted_in(new)


def _counted_in(status: JobState) -> int | None:
    """The world in which steps were counted last."""
    return status.accumulators.world_number


def _why_it_waits(status: JobState) -> str:
    """Why none can be had; nobody waits for that while others train."""
    if training(status):
        return ""
    stated = find(status, ConditionType.CAPACITY_AVAILABLE)
    return stated.message if stated is not None else ""


def _size(status: JobState) -> tuple[object, ...]:
    """Return what was decided about the size, and since when something else is justified."""
    made = status.scaling
    return (made.size, made.replaces, made.decisions, made.more_since, made.fewer_since)


def _goes_without_saying(condition: Condition) -> bool:
    """Whether nobody waits for it: of a gang that starts, the pods themselves say it sooner."""
    if condition.type == ConditionType.PRICING_COMPLETE.value:
        return True  # with a budget `WithinBudget` says it as well, and at once
    if condition.type == ConditionType.QUEUED.value:
        return True  # the reason and the holders say it, and are written in time
    is_about_template = condition.type == ConditionType.TEMPLATE_ACCEPTED.value
    return is_about_template and condition.status is ConditionStatus.TRUE


def _counted(status: JobState) -> tuple[object, ...]:
    # Until it is known how long they take nobody is moved: a first one is not kept for a refresh.
    # A charge that ends is settled, or noted where nobody says that the worker has ended.
    paid = (status.settled, status.accumulators.ends)
    world = status.world if status.phase in FINISHED else None  # else it is urgent
    # The first worker's last values may come after another one has said that all is done.
    last = status.metrics if status.phase in FINISHED else None
    return (paid, status.failed, status.interruptions, status.pace.changeovers, world, last)


def _shown(status: JobState) -> tuple[object, ...]:
    return (status.phase, status.reason, status.workers)


def _ends(status: JobState) -> bool:
    """Whether workers of a job that is over are still to be settled."""
    if status.phase not in FINISHED:
        return False
    return status.settled.size < (status.next_worker_id or 0)


def _saved(status: JobState) -> AcknowledgedCheckpoint | None:
    return status.checkpoint


def _begun(status: JobState) -> tuple[object, ...]:
    progress, measured = status.progress, tuple(one.name for one in status.metrics)
    return (bool(progress.step), progress.eta is not None, status.checkpoint is not None, measured)
