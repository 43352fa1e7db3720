"""Gangs: jobs that cannot all be placed do not share out the nodes, they take turns.

Two gangs that each hold half of what they need would wait for each other for ever. So those that
find no node for somebody stand in one line: the first in it may hold nodes, the others give theirs
back and wait. Who finds nodes for all is in nobody's way, and never stands there.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason
from spotrun.api.status import TrainingJobStatus
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.decide.crew import relied_on, training
from spotrun.decide.ledger import find
from spotrun.decide.sizes import smallest
from spotrun.decide.snapshot import JobSnapshot, Worker
from spotrun.decide.view import View, holds_back

PATIENCE = timedelta(minutes=10)
"""Autoscalers bring a node within this, as a rule. Who still lacks some then may be asking for what
nobody has, and lets the others go first: it must not hold up a cluster."""


@dataclass(frozen=True, order=True)
class Place:
    """A place in the line; the smallest is the first."""

    is_patience_over: bool
    less_priority: int
    created_at: datetime
    uid: str

    @classmethod
    def of(cls, job: JobSnapshot, now: datetime) -> "Place":
        """The place that a job has, or would have."""
        since = lacks_since(job)
        is_over = since is not None and now - since >= PATIENCE
        return cls(is_over, -job.spec.priority, job.created_at, job.uid)


def lacks_since(job: JobSnapshot) -> datetime | None:
    """Since when a job is known to lack nodes; None if it is not."""
    stated = find(job.status, ConditionType.CAPACITY_AVAILABLE)
    if stated is None or stated.status is not ConditionStatus.FALSE:
        return None
    return stated.last_transition_time.datetime


def lacks_nodes(job: JobSnapshot) -> bool:
    """Whether a gang has to stand in line: it is incomplete, and there is no node for somebody."""
    if not is_incomplete(job):
        return False
    has_waited = job.status.reason == Reason.WAITING_FOR_GANG
    return has_waited or any(w.pod.unschedulable and w.pod.node is None for w in _there(job))


def is_incomplete(job: JobSnapshot) -> bool:
    """Whether a job wants to train, and does not have the nodes for its smallest world yet."""
    if job.deleting or not wants_nodes(job.spec, job.status):
        return False
    placed = sum(worker.pod.node is not None for worker in _there(job))
    return placed < smallest(job.spec.workers)


def wants_nodes(spec: TrainingJobSpec, status: TrainingJobStatus) -> bool:
    """Whether a job is to train, and does not yet."""
    return not (spec.suspend or holds_back(status) or training(status))


def must_wait(view: View, status: TrainingJobStatus) -> bool:
    """Whether the job may hold no nodes now; workers that train, or hold the state, stay."""
    if view.job.may_hold_nodes or training(status):
        return False
    return relied_on(status).isdisjoint(view.alive_serials)


def _there(job: JobSnapshot) -> list[Worker]:
    return [w for w in job.workers if w.pod.end is None and not w.pod.deleting]
