"""The rate of writes: a new status is written at once if others act on it, otherwise later.

A gang of hundreds starts and ends within seconds; a write for each worker would be noise for people
and load for the API server.
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
"""The progress of a training may be this old; each job has its own pace between the two limits."""
TRIAL_SECONDS = 5.0
"""The values of a trial may be this old: a search uses them to stop trials and to begin others. The
same limit holds for a job with `stopWhen`: only values that are written are judged."""
GATHER_SECONDS = 2.0
"""The number of running workers, and which have failed or are settled, may be this old."""
LAST_SECONDS = 5.0
"""The same for a job that is over, until its last worker is settled: workers end within seconds."""
FIRST_SECONDS = 5.0
"""The first news of a job may be this old: its first workers have a node, its first steps, the
first forecast of its end, its first checkpoint. Jobs that train or are over by then need one write
less."""
SAVED_SECONDS = 30.0
"""A later checkpoint may be this old: if a job saves every few seconds, not every save is a
write."""
WORDS_SECONDS = 10.0
"""The reason why a job does not start, and the number of its workers that run before it trains, may
be this old: several workers report them one after the other."""


def refresh_seconds(job: JobSnapshot) -> float:
    """Return a job's pace. Otherwise jobs that started together would be written at the same time.

    A thousand jobs at once keep an API server on two cores busy for eight seconds, and the handling
    of a worker lost in that time is delayed by up to 1.5 s. With a budget, each write tells workers
    how long they may stay, and this information must be recent.
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
    # If a metric is waited for, the status of a job that saves often is no older than that of
    # others.
    return min(next(waits, refresh_seconds), refresh_seconds) - written_seconds


def ends_trial(job: JobSnapshot, new: JobState) -> bool:
    """Whether no worker of a trial costs anything any more: its search waits for that."""
    given_out = new.next_worker_id or 0
    return job.is_trial and job.status.settled.size < given_out <= new.settled.size


def _urgent(status: JobState) -> tuple[object, ...]:
    """Return what somebody acts on: agents, users, or the operator after a restart."""
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
    """Return decisions about room that other jobs make: they are known only until it is used."""
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
    """Return why no worker trains; a starting gang soon gets nodes for most, then for all."""
    is_starting = reason == Reason.WAITING_FOR_WORKERS.value
    return Reason.WAITING_FOR_CAPACITY.value if is_starting else reason


def _is_set_back(old: JobState, new: JobState) -> bool:
    """Whether steps are repeated in another world: they are soon caught up, and then unseen.

    This happens once per world, because the workers report it.
    """
    is_more = old.interruptions.lost_steps != new.interruptions.lost_steps
    return is_more and _counted_in(old) != _counted_in(new)


def _counted_in(status: JobState) -> int | None:
    """Return the world in which steps were counted last."""
    return status.accumulators.world_number


def _why_it_waits(status: JobState) -> str:
    """Return why no worker can be had; while workers train, this is not urgent."""
    if training(status):
        return ""
    stated = find(status, ConditionType.CAPACITY_AVAILABLE)
    return stated.message if stated is not None else ""


def _size(status: JobState) -> tuple[object, ...]:
    """Return what was decided about the size, and since when another size is justified."""
    made = status.scaling
    return (made.size, made.replaces, made.decisions, made.more_since, made.fewer_since)


def _goes_without_saying(condition: Condition) -> bool:
    """Whether a condition is not urgent: the pods of a gang that starts show it sooner."""
    if condition.type == ConditionType.PRICING_COMPLETE.value:
        return True  # with a budget, `WithinBudget` shows the same at once
    if condition.type == ConditionType.QUEUED.value:
        return True  # the reason and `suspendedBy` show it, and are written in time
    is_about_template = condition.type == ConditionType.TEMPLATE_ACCEPTED.value
    return is_about_template and condition.status is ConditionStatus.TRUE


def _counted(status: JobState) -> tuple[object, ...]:
    # No worker is moved until changeover times are known: so the first one does not wait for a
    # refresh. A charge that ends is settled, or noted if no report says that the worker has ended.
    paid = (status.settled, status.accumulators.ends)
    world = status.world if status.phase in FINISHED else None  # otherwise it is urgent
    # The first worker's last values may arrive after another worker has reported completion.
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
