"""The reason why a job waits, and the message that `kubectl get` shows while it does not train."""

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason
from spotrun.policies.failures.fixed_size import why_held
from spotrun.policies.failures.node_rejections import why_rejected
from spotrun.policies.failures.policy import waits_for_retry
from spotrun.policies.placement.queueing.gang import gives_back, lacks_quota, must_wait, only_asks
from spotrun.policies.placement.queueing.partial_capacity_status import (
    waits_before_asking_again,
    why_fewer,
)
from spotrun.policies.placement.queueing.quota import is_over_quota, need
from spotrun.policies.report.write_failures import why_undone
from spotrun.policies.workers.capacity_condition import left_out, no_node, no_start, not_asked
from spotrun.policies.workers.device_claims import lacks_processes, must_be_said
from spotrun.policies.workers.volume_check import is_refused
from spotrun.state.conditions import find, read_reason
from spotrun.state.job_state import JobState
from spotrun.state.sizes import smallest
from spotrun.state.snapshot import Refusal
from spotrun.state.stored.failures import Restarts
from spotrun.state.view import View


def why_it_waits(view: View, status: JobState) -> tuple[Reason, str]:
    """Return why a job that is neither suspended nor over does not train, in one line."""
    if held_up := _held_up(view, status):
        return held_up
    is_refused_size = status.restarts.last_reason == Reason.SIZE_REFUSED
    if waits_for_retry(view, status) and not is_refused_size:
        return _waits_for_retry(view, status)
    if view.alive and all(worker.speaks_old_wire for worker in view.alive):
        return Reason.AGENT_TOO_OLD, Reason.AGENT_TOO_OLD.purpose
    reason, message = _waits_for_workers(view, status)
    if status.restarts.sizes.held is not None:
        return Reason.SIZE_REFUSED, f"{message}; {why_held(status.restarts)}"[:MAX_MESSAGE_CHARS]
    return reason, message


def _waits_for_retry(view: View, status: JobState) -> tuple[Reason, str]:
    restarts = status.restarts
    assert restarts.retry_at is not None, "it waits for a retry"
    again = f"{attempts(view, restarts)}, the next try at {Time.of(restarts.retry_at)}"
    message = f"after {restarts.last_reason}: {again}; {restarts.last_message or ''}"
    return read_reason(restarts.last_reason, Reason.EXIT_CODE), message.rstrip("; ")


def _held_up(view: View, status: JobState) -> tuple[Reason, str] | None:
    """Return what prevents the creation of workers; None if nothing does."""
    if is_refused(view, status):
        return Reason.VOLUME_NOT_SHARED, Reason.VOLUME_NOT_SHARED.purpose
    if lacks_processes(view, status):
        return Reason.PROCESSES_UNKNOWN, must_be_said(view.job)
    return _asks_in_vain(view, status)


def _asks_in_vain(view: View, status: JobState) -> tuple[Reason, str] | None:
    undone, refusal = why_undone(view.job), view.job.refusal
    if undone is not None and len(view.alive) < smallest(view.job.effective_workers):
        return Reason.WRITE_FAILED, undone
    if refusal is not None and not is_over_quota(view.job):
        return _refused(refusal)
    if waits_before_asking_again(status):
        return Reason.WAITING_FOR_CAPACITY, why_fewer(status) or ""
    if must_wait(view, status) and not gives_back(view.job, view.now):
        return Reason.WAITING_FOR_GANG, _behind(refusal)
    if lacks_quota(view.job):
        return Reason.QUOTA_EXCEEDED, _over_quota(view, status)
    return None


def _refused(refusal: Refusal) -> tuple[Reason, str]:
    reason, words = read_reason(refusal.reason, Reason.TEMPLATE_REFUSED), refusal.message
    if reason is Reason.TEMPLATE_REFUSED:
        words = f"Kubernetes refuses the workers: {words}"
    return reason, words[:MAX_MESSAGE_CHARS]


def _behind(refusal: Refusal | None) -> str:
    """Describe the wait in line; a job that gave way to another adds the refusal of their quota."""
    why = Reason.WAITING_FOR_GANG.purpose
    return f"{why}; {refusal.message}"[:MAX_MESSAGE_CHARS] if refusal is not None else why


def _over_quota(view: View, status: JobState) -> str:
    if view.job.refusal is None:
        return status.message or Reason.QUOTA_EXCEEDED.purpose  # an earlier leader's answer
    words, workers = view.job.refusal.message, smallest(view.job.effective_workers)
    needed = f"at least {workers} workers are needed at once"
    if amount := need(words, workers):
        needed += f", which is {amount}"
    is_kept = view.alive and not must_wait(view, status)  # a worker that has the state stays
    if only_asks(view.job, view.now) and not is_kept:
        needed += "; none is kept while there is no room for so many"
    return f"{needed}; {words}"[:MAX_MESSAGE_CHARS]


def _waits_for_workers(view: View, status: JobState) -> tuple[Reason, str]:
    scheduled = sum(worker.pod.node is not None for worker in view.alive)
    ready = sum(worker.is_ready for worker in view.alive)
    needed = smallest(view.job.effective_workers)
    message = f"{ready} of at least {needed} workers are ready, {scheduled} have a node"
    if scheduled < needed:
        reason, why = _lacks_nodes(view, status)
        return reason, "; ".join(filter(None, (message, why)))
    trouble = no_start(view)
    if trouble is not None:
        return Reason.CANNOT_START, f"{message}; {trouble}"
    return Reason.WAITING_FOR_WORKERS, message


def _lacks_nodes(view: View, status: JobState) -> tuple[Reason, str]:
    """Return why too few have a node; until a lack of nodes is reported, the job is starting."""
    rejected, lack = why_rejected(view, status), not_asked(view) or no_node(view)
    why = "; ".join(filter(None, (rejected, lack, left_out(view, status))))
    if rejected:
        return Reason.REJECTED, why
    stated = find(status, ConditionType.CAPACITY_AVAILABLE)
    is_stated = stated is not None and stated.status is ConditionStatus.FALSE
    if why or is_stated:
        return Reason.WAITING_FOR_CAPACITY, why
    is_made = len(view.alive) >= smallest(view.job.effective_workers)
    asked = "the scheduler looks for nodes" if is_made else "pods are being created"
    return Reason.WAITING_FOR_WORKERS, asked


def attempts(view: View, restarts: Restarts) -> str:
    """Return how many restarts are used up, for a message."""
    return f"{restarts.failures} of {view.job.spec.failures.max_restarts} restarts"
