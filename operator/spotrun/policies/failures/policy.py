"""Failures: counted once per world; after each the job restarts after a growing pause, or ends.

When one process dies, its peers fail as well. So only the first failure reported in a world counts.
None counts if the platform took a member away, even if the operator sees this a little later.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from spotrun import wire
from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.failures.backoff import LONGEST_PAUSE, pause_seconds
from spotrun.policies.failures.counting import Failure, count, put_cause, take_back
from spotrun.policies.failures.fixed_size import (
    is_on_probation,
    note_size,
)
from spotrun.policies.failures.hang import is_hung, stands_seconds
from spotrun.policies.failures.hang_report import standstill
from spotrun.policies.failures.joining_workers import (
    brought_down,
    count_joining_workers,
    retry_joining_workers_wake_after_seconds,
)
from spotrun.policies.failures.noticed_ends import name_those_who_go_on, true_cause
from spotrun.policies.policy import Policy
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import FINISHED, View, given_up
from spotrun.state.worker_outcomes import FAILURES, reason_of
from spotrun.state.world_members import (
    failed,
    gone,
    has_failed_in,
    is_breaking_off,
    training,
    world_number,
)
from spotrun.state.world_transitions import give_up

VERDICT_AFTER = timedelta(seconds=5)
"""A node that dies without a report is found after its peers' failures: about 4 s later."""


def count_failures(view: View, status: JobState) -> JobState:
    """Count a new failure, take back one that was none, and end the job if there were too many."""
    if status.phase in FINISHED:
        return status
    status = note_size(view, status)
    status = count_joining_workers(view, status, but=_peers(view, status))
    if (cause := _taken_before_the_failure(view, status)) is not None:
        return take_back(view, status, cause)
    failure = _new_failure(view, status)
    if failure is not None:
        status = count(view, status, failure)
    bad = [one for one in with_bad_devices(view, status) if one.worker_id not in given_up(status)]
    if bad:
        status = give_up(view, status, bad)
    return _judge(view, _with_its_cause(view, status))


def with_bad_devices(view: View, status: JobState) -> list[Worker]:
    """Return the members whose processes have ended because of their device.

    They are replaced after the first failure: the same device would fail again.
    """
    return _failed(view, status, lambda failure: failure.is_of_device)


def with_wrong_numbers(view: View, status: JobState) -> list[Worker]:
    """Return those of them whose devices computed wrong numbers."""
    return _failed(view, status, lambda failure: failure.is_of_wrong_numbers)


def _failed(view: View, status: JobState, holds: Callable[[wire.Failure], bool]) -> list[Worker]:
    return [
        worker
        for worker in failed(view, status)
        if worker.agent is not None
        and worker.agent.report.failed is not None
        and holds(worker.agent.report.failed)
    ]


def note_failed(view: View, status: JobState) -> JobState:
    """Remember a failed worker while side containers keep its pod running: it counts once.

    It is also remembered while the world in which it failed trains, though its pod may be gone by
    then: the platform did not take it away.
    """
    known = status.failed
    there = {
        worker_id
        for worker_id, outcome in view.ends.items()
        if outcome.is_failure and not view.by_worker_id[worker_id].pod.is_over
    }
    failed = there | known.intersection(training(status))
    if failed == known:
        return status
    return replace(status, failed=frozenset(failed))


def waits_for_retry(view: View, status: JobState) -> bool:
    """Whether the pause after a failure is not over."""
    return _pause_seconds(view, status) is not None


def retry_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the next pause ends, for all or for joining workers; None without a pause."""
    pauses = (_pause_seconds(view, status), retry_joining_workers_wake_after_seconds(view, status))
    return min((seconds for seconds in pauses if seconds is not None), default=None)


def _pause_seconds(view: View, status: JobState) -> float | None:
    return pause_seconds(view, status.restarts.retry_at)


def verdict_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the job ends, unless the failure turns out to be none."""
    restarts = status.restarts
    if status.phase in FINISHED or restarts.counted_since is None:
        return None
    if _verdict(view, status) is None:
        return None
    return (restarts.counted_since + VERDICT_AFTER - view.now).total_seconds()


def _with_its_cause(view: View, status: JobState) -> JobState:
    """Replace a failure by its cause, if the cause is reported by now.

    Reports of the workers of a world may arrive in any order: it is one failure, and counted
    already.
    """
    restarts, world = status.restarts, status.restarts.last_world
    if not restarts.last_follows or world is None or not waits_for_retry(view, status):
        return status
    # Of the world that failed, though the next one may be prepared by now.
    worker = true_cause(one for one in view.alive if has_failed_in(one, world))
    return status if worker is None else put_cause(view, status, _failure_of(worker))


def _failure_of(worker: Worker) -> Failure:
    assert worker.agent is not None, "it has reported a failure"
    reported = worker.agent.report.failed
    assert reported is not None, "as above"
    node = worker.pod.node
    reason = reason_of(reported.message)
    return Failure(reason, reported.exit_code, reported.message, node, reported.follows)


def _peers(view: View, status: JobState) -> frozenset[int]:
    """Return the workers whose failures have a cause that is known already."""
    is_known = waits_for_retry(view, status) or _somebody_was_taken(view, status) is not None
    return frozenset(training(status)) if is_known else frozenset()


def _new_failure(view: View, status: JobState) -> Failure | None:
    if waits_for_retry(view, status):
        return None  # peers fail after the first within the pause, even if no world has formed
    if _somebody_was_taken(view, status) is not None:
        return _ended(view, but=frozenset(training(status)))
    if training(status) and status.restarts.last_world == world_number(status):
        return _ended(view, but=frozenset(training(status)))
    return _reported(view, status) or _ended(view) or _hung(view, status)


def _hung(view: View, status: JobState) -> Failure | None:
    """Return the failure for a hang; its message names who stopped first, but no node is blamed."""
    if not is_hung(view, status):
        return None
    seconds = stands_seconds(view, status)
    assert seconds is not None, "it has stood too long"
    return Failure(Reason.HUNG, None, standstill(view, status, seconds))


def _reported(view: View, status: JobState) -> Failure | None:
    if brought_down(status) or is_breaking_off(view, status):
        return None
    reported = [one for one in failed(view, status) if one.agent and one.agent.report.failed]
    if not reported:
        return None
    if cause := true_cause(reported):
        return _failure_of(cause)
    failure = _failure_of(reported[0])
    return replace(failure, message=name_those_who_go_on(view, status, failure.message))


def _ended(view: View, but: frozenset[int] = frozenset()) -> Failure | None:
    """Return the failure of a worker that ended by itself and that the stored status lacks."""
    if not view.ends:
        return None
    before = view.job.status
    settled, known = before.settled, before.failed | but
    return next(
        (
            Failure(
                outcome.cause,
                outcome.exit_code,
                outcome.message,
                view.by_worker_id[worker_id].pod.node,
            )
            for worker_id, outcome in sorted(view.ends.items())
            if outcome.is_failure
            and outcome.cause is not None
            and worker_id not in settled
            and worker_id not in known
        ),
        None,
    )


def _somebody_was_taken(view: View, status: JobState) -> Reason | None:
    """Return why a member left the world without failing itself; None if none did."""
    for worker_id in gone(view, status):
        outcome = view.ends.get(worker_id)
        if outcome is None and worker_id in status.failed:
            continue  # its pod has gone since
        if outcome is None or not outcome.is_failure:
            return (outcome.cause if outcome is not None else None) or Reason.NODE_LOST
    return None


def _seen_to_be_taken(view: View, status: JobState) -> Reason | None:
    """Return how the platform took a member away, if the operator did not remove it itself."""
    ends = (view.ends.get(worker_id) for worker_id in gone(view, status))
    return next((one.cause for one in ends if one is not None and one.is_interruption), None)


def _taken_before_the_failure(view: View, status: JobState) -> Reason | None:
    """Return why a member left whose loss caused the last failure; None if no loss caused it."""
    restarts = status.restarts
    is_refusal = restarts.last_reason == Reason.SIZE_REFUSED and restarts.sizes.held is not None
    if not is_refusal and not (restarts.count and restarts.last_reason in FAILURES):
        return None
    if restarts.last_world != world_number(status) or restarts.counted_since is None:
        return None
    if view.now - restarts.counted_since > LONGEST_PAUSE:
        return None
    # A worker that exceeds the size to which a job keeps is removed at once.
    is_taken = _seen_to_be_taken if is_refusal else _somebody_was_taken
    return is_taken(view, status)


def _verdict(view: View, status: JobState) -> Reason | None:
    """Return why the last failure ends the job; None if it does not."""
    restarts = status.restarts
    if not restarts.count or restarts.last_reason not in FAILURES:
        return None
    if restarts.last_reason == Reason.UNUSABLE_IMAGE and not _has_started(status):
        return Reason.UNUSABLE_IMAGE  # it is the same image each time
    limits = view.job.spec.failures
    is_of_script = restarts.last_reason != Reason.FAULTY_DEVICE
    if is_of_script and restarts.last_exit_code in (limits.fatal_exit_codes or ()):
        return Reason.FATAL_EXIT_CODE
    most = limits.max_restarts + is_on_probation(restarts.sizes)
    return Reason.TOO_MANY_RESTARTS if restarts.count > most else None


def _has_started(status: JobState) -> bool:
    """Whether the job has had a world: then a node or a volume lacks something, and not the image.

    Workers connect from within torchrun, so their image contains all that is needed.
    """
    return status.world.number > 0


def _judge(view: View, status: JobState) -> JobState:
    seconds, restarts = verdict_wake_after_seconds(view, status), status.restarts
    if seconds is None or seconds > 0:
        return status
    reason = _verdict(view, status)
    assert reason is not None, "there is a verdict"
    last = f"{restarts.last_reason}: {restarts.last_message}"
    message = f"{reason.purpose}; the last failure was {last}"[:MAX_MESSAGE_CHARS]
    if reason is Reason.UNUSABLE_IMAGE:
        message = restarts.last_message or reason.purpose
    status = replace(status, phase=Phase.FAILED, reason=reason.value, message=message)
    return state(view, status, ConditionType.FAILED, reason, message, holds=True)


FAILURE_COUNT = Policy(count_failures, wake_after_seconds=verdict_wake_after_seconds)
FAILED_WORKERS = Policy(note_failed, wake_after_seconds=retry_wake_after_seconds)
