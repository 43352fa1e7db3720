"""The phase, its reason in one line, and what `kubectl get` shows of the workers."""

from dataclasses import replace
from datetime import timedelta

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import LABEL_JOB_UID, ConditionType, Phase, Reason
from spotrun.policies.failures.node_rejections import why_rejected
from spotrun.policies.failures.policy import waits_for_retry
from spotrun.policies.lifecycle.suspension import what_holds, why_suspended
from spotrun.policies.placement.queueing.gang import lacks_quota, must_wait
from spotrun.policies.placement.queueing.partial_capacity_status import why_fewer
from spotrun.policies.policy import Policy
from spotrun.policies.report.waiting_reason import attempts, why_it_waits
from spotrun.policies.report.write_failures import why_undone
from spotrun.policies.workers.capacity_condition import left_out, no_node, no_start
from spotrun.policies.workers.device_claims import lacks_processes, must_be_said
from spotrun.state.conditions import find, read_reason, state
from spotrun.state.job_state import JobState
from spotrun.state.replicas import whole
from spotrun.state.sizes import largest
from spotrun.state.snapshot import PodPhase
from spotrun.state.stored.workers import Allowed, WorkerCounts
from spotrun.state.view import FINISHED, View, target_size
from spotrun.state.worker_outcomes import FAILURES
from spotrun.state.world_members import (
    TRIAL_SECONDS,
    failed,
    reported_progress,
    training,
    world_members,
    world_number,
)


def describe(view: View, status: JobState) -> JobState:
    """Set phase, reason and message; this comes last because it reads all other results."""
    workers = workers_shown(view, status)
    status = _decided(view, status)
    status = replace(status, observed_generation=view.job.generation, workers=workers)
    if status.phase in FINISHED:
        return _running(view, status, holds=False)
    phase, reason, message = _where(view, status)
    if reason is not Reason.WRITE_FAILED and (undone := why_undone(view.job)):
        message = f"{message}; {undone}"
    status = replace(status, phase=phase, reason=reason.value, message=message)
    status = _running(view, status, holds=phase is Phase.RUNNING)
    return _template(view, status)


def _where(view: View, status: JobState) -> tuple[Phase, Reason, str]:
    if status.suspended_by:
        going = f"; {len(view.alive)} workers are still there" if view.alive else ""
        return Phase.SUSPENDED, why_suspended(status), what_holds(view, status) + going
    if training(status) and not _waits_to_start_again(view, status):
        lack = (no_node(view), left_out(view, status), no_start(view))
        others = (why_fewer(status), why_rejected(view, status), *lack)
        message = "; ".join([_what_they_do(view, status), *filter(None, others)])
        return Phase.RUNNING, Reason.TRAINING, message
    return _waiting(view, status), *why_it_waits(view, status)


def _enough_are_well(view: View, status: JobState) -> bool:
    """Whether enough members for a world have not failed, even if all start again."""
    broken = {worker.worker_id for worker in failed(view, status)}
    well = [worker for worker in world_members(view, status) if worker.worker_id not in broken]
    return bool(whole(view, well))


def _waits_to_start_again(view: View, status: JobState) -> bool:
    """Whether processes of the world have failed, and are started again after a pause."""
    return bool(failed(view, status)) and waits_for_retry(view, status)


def _what_they_do(view: View, status: JobState) -> str:
    """Describe the workers: they train, or started after a failure and no step is seen yet.

    A script may report no steps at all: once it has run for long, it counts as training.
    """
    number, restarts = len(training(status)), status.restarts
    has_failed = restarts.count > 0 and restarts.last_reason in FAILURES
    is_later = restarts.last_world is not None and restarts.last_world < world_number(status)
    is_seen = _has_stepped(view, status) or _runs_for_long(view, status)
    if not has_failed or not is_later or is_seen:
        return f"{number} workers train"
    return (
        f"{number} workers run after {restarts.last_reason} ({attempts(view, restarts)}), "
        "and no step is seen yet"
    )


def _runs_for_long(view: View, status: JobState) -> bool:
    formed_at = status.world.formed_at
    return formed_at is not None and view.now - formed_at > timedelta(seconds=TRIAL_SECONDS)


def _has_stepped(view: View, status: JobState) -> bool:
    """Whether a member has finished a step, in this world or since the failure."""
    present = world_number(status)
    reported = reported_progress(view, status)
    since = status.restarts.counted_since
    saved = status.checkpoint.time if status.checkpoint is not None else None
    if saved is not None and since is not None and saved > since:
        return True
    return any(one.world_number >= present and one.step_seconds is not None for one in reported)


def _waiting(view: View, status: JobState) -> Phase:
    """Return the phase of a job that waits for its first world or for the next one."""
    if status.phase is Phase.RUNNING and _enough_are_well(view, status):
        return Phase.RUNNING
    if status.phase in {Phase.RUNNING, Phase.RECOVERING}:
        return Phase.RECOVERING
    is_scheduled = any(worker.pod.node is not None for worker in view.alive)
    return Phase.STARTING if is_scheduled else Phase.PENDING


def workers_shown(view: View, status: JobState) -> WorkerCounts:
    """Return what `kubectl get` shows of the workers."""
    running = [w for w in view.alive if w.pod.phase is PodPhase.RUNNING]
    spot = sum(w.node is not None and w.node.capacity is Capacity.SPOT for w in running)
    size = target_size(view, status)
    return WorkerCounts(
        summary=f"{len(running)}/{size}",
        running=len(running),
        spot=spot,
        on_demand=len(running) - spot,
        allowed=_allowed(view, status, size),
        selector=f"{LABEL_JOB_UID}={view.job.uid}",
    )


def _allowed(view: View, status: JobState, size: int) -> Allowed:
    """Return the wanted size, or as much of it as budget and market allow."""
    lack, limit = find(status, ConditionType.CAPACITY_AVAILABLE), view.tightest_limit
    reason = limit.reason if limit is not None else None
    if lack is not None and lack.status is ConditionStatus.FALSE:
        placed = sum(worker.node is not None for worker in view.staying)
        possible = largest(view.job.effective_workers, placed)
        if possible < size:
            size, reason = possible, Reason.WAITING_FOR_CAPACITY
    return Allowed(size=size, reason=reason or "Replicas")


def _running(view: View, status: JobState, *, holds: bool) -> JobState:
    reason, message = status.reason or Reason.TRAINING.value, status.message or ""
    return state(view, status, ConditionType.RUNNING, reason, message, holds=holds)


def _decided(view: View, status: JobState) -> JobState:
    """Clear the condition that a failed policy had set: this decision was completed."""
    kind = ConditionType.DECIDED
    stated = find(status, kind)
    if stated is None or stated.status is ConditionStatus.TRUE:
        return status
    message = "the operator can decide about the job again"
    return state(view, status, kind, Reason.TRAINING, message, holds=True)


def _template(view: View, status: JobState) -> JobState:
    refusal, kind = view.job.refusal, ConditionType.TEMPLATE_ACCEPTED
    if lacks_processes(view, status):
        reason, message = Reason.PROCESSES_UNKNOWN, must_be_said(view.job)
        return state(view, status, kind, reason, message, holds=False)
    if lacks_quota(view.job) and (refusal is None or must_wait(view, status)):
        return status  # a waiting job asks for no pods, so its patience is not used up
    if refusal is not None:
        reason, message = read_reason(refusal.reason, Reason.TEMPLATE_REFUSED), refusal.message
        return state(view, status, kind, reason, message[:MAX_MESSAGE_CHARS], holds=False)
    if not view.job.workers:
        return status
    message = "the API server accepted pods of this template"
    return state(view, status, kind, Reason.TRAINING, message, holds=True)


PHASE = Policy(describe)
