"""The phase, its reason in one line, and what `kubectl get` shows of the workers."""

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import LABEL_JOB_UID, ConditionType, Phase, Reason
from spotrun.api.status import Allowed, TrainingJobStatus, WorkersStatus
from spotrun.decide.failures import waits_for_retry
from spotrun.decide.ledger import state
from spotrun.decide.sizes import wanted
from spotrun.decide.snapshot import PodPhase
from spotrun.decide.view import FINISHED, View
from spotrun.decide.world import training


def describe(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Say where the job is; comes last, for it reads what the others concluded."""
    status = status.model_copy(
        update={
            "observed_generation": view.job.generation,
            "workers": _workers(view, status),
        }
    )
    if status.phase in FINISHED:
        return _running(view, status, holds=False)
    phase, reason, message = _where(view, status)
    status = status.model_copy(update={"phase": phase, "reason": reason.value, "message": message})
    status = _running(view, status, holds=phase is Phase.RUNNING)
    return _template(view, status)


def _where(view: View, status: TrainingJobStatus) -> tuple[Phase, Reason, str]:
    workers = view.job.spec.workers
    if status.suspended_by:
        going = f"; {len(view.alive)} workers are still there" if view.alive else ""
        why = "; ".join(f"{who}: {who.purpose}" for who in status.suspended_by)
        return Phase.SUSPENDED, Reason.SUSPENDED_BY_USER, why + going
    if members := training(status):
        return Phase.RUNNING, Reason.TRAINING, f"{len(members)} workers train"
    if view.job.refusal is not None:
        refusal = view.job.refusal
        message = f"Kubernetes refuses the workers: {refusal.message}"[:4096]
        return _waiting(status), Reason.TEMPLATE_REFUSED, message
    if waits_for_retry(view, status):
        restarts = status.restarts
        assert restarts is not None, "it waits for a retry"
        again = f"{restarts.failures} of {view.job.spec.failures.max_restarts} restarts"
        message = f"after {restarts.last_reason}: {again}, the next at {restarts.retry_at}"
        return _waiting(status), Reason.EXIT_CODE, message
    scheduled = sum(worker.pod.node is not None for worker in view.alive)
    ready = sum(worker.is_ready for worker in view.alive)
    message = f"{ready} of {workers.min} workers are ready, {scheduled} have a node"
    reason = Reason.WAITING_FOR_WORKERS if scheduled else Reason.WAITING_FOR_CAPACITY
    return _waiting(status), reason, message


def _waiting(status: TrainingJobStatus) -> Phase:
    """What a job without a world waits for: its first one, or another."""
    if status.world is not None:
        return Phase.RECOVERING
    return Phase.STARTING if status.next_serial else Phase.PENDING


def _workers(view: View, status: TrainingJobStatus) -> WorkersStatus:
    running = [w for w in view.alive if w.pod.phase is PodPhase.RUNNING]
    spot = sum(w.node is not None and w.node.capacity is Capacity.SPOT for w in running)
    size = 0 if status.suspended_by or status.phase in FINISHED else wanted(view.job.spec.workers)
    return WorkersStatus(
        summary=f"{len(running)}/{size}",
        running=len(running),
        spot=spot,
        on_demand=len(running) - spot,
        allowed=Allowed(size=size, reason="Replicas"),
        selector=f"{LABEL_JOB_UID}={view.job.uid}",
    )


def _running(view: View, status: TrainingJobStatus, *, holds: bool) -> TrainingJobStatus:
    reason, message = status.reason or Reason.TRAINING.value, status.message or ""
    return state(view, status, ConditionType.RUNNING, reason, message, holds=holds)


def _template(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    refusal, kind = view.job.refusal, ConditionType.TEMPLATE_ACCEPTED
    if refusal is not None:
        message = refusal.message[:4096]
        return state(view, status, kind, Reason.TEMPLATE_REFUSED, message, holds=False)
    if not view.job.workers:
        return status
    message = "pods of this template were accepted"
    return state(view, status, kind, Reason.TRAINING, message, holds=True)
