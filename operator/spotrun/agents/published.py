"""The published form of a job: its status as stored, and its workers' pods."""

import logging
from collections import Counter
from decimal import Decimal

from spotrun.agents.answers import Peer, Published
from spotrun.agents.long_poll import Board
from spotrun.api.names import ANNOTATION_PROFILE_WANTED
from spotrun.observe.template_defaults import processes
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot, PodPhase
from spotrun.state.world_members import training
from spotrun.wire import Metric, Notice, Stage, profile_of_text, read_param

log = logging.getLogger(__name__)


def publish(board: Board, job: JobSnapshot, status: JobState, version: str) -> None:
    """Publish a job to its workers, if its stored status is known.

    If a bug in the answers makes this fail, users can still suspend the job, or delete it.
    """
    if not job.may_be_published:
        return
    try:
        board.publish(published(job, status), int(version))
    except Exception:
        log.exception(
            "%s/%s: the operator could not make the answers to the job's workers, so they get "
            "none: please report this",
            job.namespace,
            job.name,
        )


def published(job: JobSnapshot, status: JobState) -> Published:
    """Return a job as it is stored, with its workers' pods."""
    return Published(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        status=status,
        peers={w.worker_id: Peer(w.pod.name, w.pod.uid, w.pod.address) for w in job.workers},
        processes=processes(job),
        cost_labels=job.cost_labels,
        placed=_placed(job),
        budget_usd=_budget(job),
        notice=_notice(job, status),
        metrics=_metrics(job, status),
        saves=job.spec.checkpoint is not None,
        stages=_stages(job),
        profile=profile_of_text(job.script.get(ANNOTATION_PROFILE_WANTED, "")),
    )


def _stages(job: JobSnapshot) -> tuple[Stage, ...]:
    stages = job.spec.stages or ()
    return tuple(
        Stage(
            name=one.name,
            index=index,
            is_last=index + 1 == len(stages),
            until_step=one.until_step,
            args=one.args or (),
            params={name: read_param(text) for name, text in (one.params or {}).items()},
        )
        for index, one in enumerate(stages)
    )


def _placed(job: JobSnapshot) -> Counter[tuple[str, str]]:
    """Count the running workers on existing nodes, by the node's pool and its capacity type."""
    nodes = (worker.node for worker in job.workers if worker.pod.phase is PodPhase.RUNNING)
    return Counter(
        (node.pool, node.capacity.value) for node in nodes if node is not None and not node.gone
    )


def _notice(job: JobSnapshot, status: JobState) -> Notice | None:
    """Return the earliest notice that a node of a training worker goes away; None if none."""
    members = set(training(status))
    ends = [
        (worker.node.leaves_at.timestamp(), worker.pod.name, worker.node.name)
        for worker in job.workers
        if worker.worker_id in members
        and worker.node is not None
        and worker.node.leaves_at is not None
    ]
    if not ends:
        return None
    at, pod, node = min(ends)
    return Notice(at, f"node {node} of {pod} goes away")


def _metrics(job: JobSnapshot, status: JobState) -> tuple[Metric, ...]:
    """Return the metrics of the first worker that has reported some."""
    agents = {worker.worker_id: worker.agent for worker in job.workers if worker.agent is not None}
    members = (agents[worker_id] for worker_id in training(status) if worker_id in agents)
    reported = (one.report.progress.metrics for one in members if one.report.progress is not None)
    return next((metrics for metrics in reported if metrics), ())


def _budget(job: JobSnapshot) -> Decimal | None:
    budget = job.spec.budget
    limit = budget.max_cost_usd if budget is not None else None
    return limit.decimal if limit is not None else None
