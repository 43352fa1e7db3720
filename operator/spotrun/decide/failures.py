"""Failures: counted once a world, answered with a restart after a growing pause, or with the end.

When one process dies its peers fail as well, so of all that is reported in one world only the first
counts.
"""

from dataclasses import dataclass
from datetime import timedelta

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.api.status import Restarts, TrainingJobStatus
from spotrun.api.values import Serials, Time
from spotrun.decide.ledger import record, state
from spotrun.decide.view import FINISHED, View

FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(minutes=5)
FORGIVEN_AFTER = timedelta(hours=1)
"""So much durable progress since the last failure, and the count starts afresh."""


@dataclass(frozen=True)
class Failure:
    """What went wrong, in the words of the first who said so."""

    reason: Reason
    exit_code: int | None
    message: str


def count_failures(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Count a new failure, and end the job if it was one too many."""
    failure = _new_failure(view, status)
    if failure is None or status.phase in FINISHED:
        return status
    restarts = status.restarts or Restarts()
    failures = 1 if _is_forgiven(status) else (restarts.failures or 0) + 1
    pause = pause_after(failures)
    counted = restarts.model_copy(
        update={
            "failures": failures,
            "counted_since": Time.of(view.now),
            "retry_at": Time.of(view.now + pause),
            "last_generation": status.world.generation if status.world else 0,
            "last_reason": failure.reason.value,
            "last_exit_code": failure.exit_code,
        }
    )
    status = status.model_copy(update={"restarts": counted})
    limits = view.job.spec.failures
    if failure.exit_code in (limits.fatal_exit_codes or ()):
        return _end(view, status, Reason.FATAL_EXIT_CODE, failure)
    if failures > limits.max_restarts:
        return _end(view, status, Reason.TOO_MANY_RESTARTS, failure)
    numbers = {"failures": str(failures), "pauseSeconds": f"{pause.total_seconds():.0f}"}
    return record(view, status, "Restart", f"{failure.reason}: {failure.message}"[:4096], numbers)


def pause_after(failures: int) -> timedelta:
    """10 s, doubled with every failure, up to 5 min."""
    doublings = min(failures - 1, 10)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)


def waits_for_retry(view: View, status: TrainingJobStatus) -> bool:
    """Whether the pause after a failure is not over."""
    retry_at = status.restarts.retry_at if status.restarts is not None else None
    return retry_at is not None and retry_at.datetime > view.now


def _new_failure(view: View, status: TrainingJobStatus) -> Failure | None:
    world, restarts = status.world, status.restarts or Restarts()
    if world is not None and world.members and restarts.last_generation == world.generation:
        return None
    if waits_for_retry(view, status):
        return None  # peers follow the first within the pause, also where no world has formed
    return _reported(view, status) or _ended(view)


def _reported(view: View, status: TrainingJobStatus) -> Failure | None:
    if status.world is None:
        return None
    reports = (worker.agent.report for worker in view.alive if worker.agent is not None)
    failed = (r.failed for r in reports if r.failed is not None)
    of_this_world = (f for f in failed if f.generation == status.world.generation)
    return next((Failure(Reason.EXIT_CODE, f.exit_code, f.message) for f in of_this_world), None)


def _ended(view: View) -> Failure | None:
    """A worker that has ended by its own fault and was not settled when this status was stored."""
    settled = set((view.job.status.settled or Serials("")).numbers)
    return next(
        (
            Failure(fate.cause, fate.exit_code, fate.message)
            for serial, fate in sorted(view.ends.items())
            if fate.is_failure and fate.cause is not None and serial not in settled
        ),
        None,
    )


def _is_forgiven(status: TrainingJobStatus) -> bool:
    since = status.restarts.counted_since if status.restarts is not None else None
    if since is None or status.checkpoint is None:
        return False
    return status.checkpoint.time.datetime - since.datetime >= FORGIVEN_AFTER


def _end(
    view: View, status: TrainingJobStatus, reason: Reason, failure: Failure
) -> TrainingJobStatus:
    message = f"{reason.purpose}; the last failure was {failure.reason}: {failure.message}"[:4096]
    status = status.model_copy(
        update={"phase": Phase.FAILED, "reason": reason.value, "message": message}
    )
    return state(view, status, ConditionType.FAILED, reason, message, holds=True)
