"""Success: any member of the present world reports that the training is complete and durable.

If another stage follows, the operator begins that stage instead.
"""

from collections.abc import Container
from dataclasses import replace

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.lifecycle.early_stop import is_stopping, stopped
from spotrun.policies.lifecycle.stages import (
    end_last_stage,
    has_next_stage,
    is_ended_by_metric,
    is_entered,
    next_stage,
)
from spotrun.policies.policy import Policy
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import PodEnd, Worker
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import training, world_members, world_number
from spotrun.wire import Ending

NO_STEP_SEEN = (
    "its script ended without an error, but reported no training step: read its log to see "
    "whether it trained"
)


def complete(view: View, status: JobState) -> JobState:
    """End the job as succeeded; what is lost after that does not matter.

    A stage ends when all workers that train in it have completed it, so that each reaches its
    script's end.
    """
    if status.phase in FINISHED or not (completed := _completed(view, status)):
        return status
    if is_stopping(view.job.status):
        return stopped(view, status)
    if has_next_stage(view, status):
        are_all = all(one.worker_id in completed for one in world_members(view, status))
        return next_stage(view, status) if are_all else status
    if is_ended_by_metric(view.job.status):
        return end_last_stage(view, status)
    message = _how(view, status)
    status = replace(status, phase=Phase.SUCCEEDED, reason=Reason.COMPLETED.value, message=message)
    return state(view, status, ConditionType.COMPLETE, Reason.COMPLETED, message, holds=True)


def _how(view: View, status: JobState) -> str:
    saved = status.checkpoint
    agents = (worker.agent for worker in view.job.workers)
    reported = [agent.report.progress for agent in agents if agent is not None]
    if saved is not None and any(one and one.restored == saved.name for one in reported):
        return (
            f"the training was complete already: it continued from {saved.name}, which was in the "
            "job's folder, and had no step left; to train from the beginning, give the job "
            "another name, or remove that folder"
        )
    if saved is not None:
        return f"the training is complete and its last checkpoint durable: {saved.name}"
    if not status.progress.step and not any(one and one.step for one in reported):
        return NO_STEP_SEEN
    if view.job.spec.checkpoint is None:
        return "the training is complete; spec.checkpoint names no place, so no checkpoint was made"
    return (
        "the training is complete; no checkpoint was reported, because its script saves by itself "
        "or not at all"
    )


def _completed(view: View, status: JobState) -> frozenset[int]:
    """Return the workers that report completion, or whose pods show it."""
    if not is_entered(status):
        return frozenset()  # the workers report that the stage before is complete
    members = set(training(status))
    return frozenset(
        worker.worker_id
        for worker in view.job.workers
        if _has_reported(worker, world_number(status), members)
        or (
            worker.pod.end is not None
            and _has_completed(worker.pod.end)
            and (status.stage is None or worker.worker_id in members)
        )
    )


def _has_reported(worker: Worker, present: int, members: Container[int]) -> bool:
    report = worker.agent.report if worker.agent is not None else None
    if report is None or not report.completed or worker.worker_id not in members:
        return False
    return report.arrived == present


def _has_completed(end: PodEnd) -> bool:
    """Whether a trainer ended because its script did; other containers of the pod do not count."""
    if end.words is not None:
        return end.words.reason is Ending.COMPLETED
    return end.exit_code == 0  # torchrun exits with 0 only if its script did


COMPLETION = Policy(complete)
