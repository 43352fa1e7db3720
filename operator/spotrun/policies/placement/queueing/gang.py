"""Gangs: jobs that cannot all be placed do not divide the nodes, they take turns.

Two gangs that each hold half of the nodes that they need would wait for each other for ever. So
gangs that lack a node for some worker wait in one queue: the first may hold nodes, the others give
theirs back. A gang that finds nodes for all its workers blocks no other gang, so it does not enter
the queue. Neither does a job whose workers fit no known node and no known pool: it asks for nodes,
because an autoscaler may know more.

A quota belongs to one namespace, so each namespace has a queue of its own: for jobs of which a
quota refuses a part, and for jobs that lack nodes, because they use the quota as well.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.policies.placement.queueing.partial_capacity_status import waits_before_asking_again
from spotrun.policies.placement.queueing.quota import is_over_quota, over_quota_since
from spotrun.policies.pool.eligibility import holds, offers
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.sizes import smallest
from spotrun.state.snapshot import JobSnapshot, Worker
from spotrun.state.view import View, holds_back
from spotrun.state.world_members import relied_on, training

PATIENCE = timedelta(minutes=10)
"""Autoscalers usually bring a node within this time. A job that still lacks nodes then may ask for
nodes that do not exist: it lets the others go first, so that it does not block the cluster."""

EVERYWHERE = ""
"""The queue for nodes; the queues for quotas have the names of their namespaces."""


@dataclass(frozen=True, order=True)
class Place:
    """A place in the queue; the smallest is the first."""

    is_patience_over: bool
    less_priority: int
    created_at: datetime
    uid: str

    @classmethod
    def of(cls, job: JobSnapshot, now: datetime) -> "Place":
        """The place that a job has, or would have."""
        since = held_up_since(job)
        is_over = (since is not None and now - since >= PATIENCE) or fits_nowhere(job)
        return cls(is_over, -job.spec.priority, job.created_at, job.uid)


def lacks_since(job: JobSnapshot) -> datetime | None:
    """Return since when a job is known to lack nodes; None if it is not."""
    stated = find(job.status, ConditionType.CAPACITY_AVAILABLE)
    if stated is None or stated.status is not ConditionStatus.FALSE:
        return None
    return stated.last_transition_time


def held_up_since(job: JobSnapshot) -> datetime | None:
    """Return since when a job is known to lack nodes or room in a quota; None if it lacks none."""
    known = (lacks_since(job), over_quota_since(job) if lacks_quota(job) else None)
    return min((since for since in known if since is not None), default=None)


def lines_of(job: JobSnapshot, before: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the queues in which a gang must wait, by its present state and its queues before.

    A gang in a queue stays there until it is complete, also before the scheduler has tried its
    pods.
    """
    if not is_incomplete(job):
        return frozenset()
    if lacks_nodes(job):
        before |= {EVERYWHERE, job.namespace}
    elif lacks_quota(job):
        before |= {job.namespace}
    return before - {EVERYWHERE} if fits_nowhere(job) else before


def fits_nowhere(job: JobSnapshot) -> bool:
    """Whether no worker has a node, and none would fit any node or any pool that is known."""
    market = job.market
    if not market.pools or not wants_nodes(job.spec, job.status):
        return False
    if any(worker.pod.node is not None for worker in present(job)):
        return False
    found = offers(job)
    return not (found.spot or found.stable or any(holds(one, job) for one in market.strays))


def lacks_nodes(job: JobSnapshot) -> bool:
    """Whether a gang is incomplete and lacks a node for some worker, or did when it gave way."""
    if not is_incomplete(job):
        return False
    has_waited = job.status.reason == Reason.WAITING_FOR_GANG and not is_over_quota(job)
    return has_waited or any(w.pod.unschedulable and w.pod.node is None for w in present(job))


def lacks_quota(job: JobSnapshot) -> bool:
    """Whether a quota leaves a gang fewer workers than its smallest world has."""
    return (
        is_over_quota(job)
        and is_incomplete(job)
        and len(present(job)) < smallest(job.effective_workers)
    )


def only_asks(job: JobSnapshot, now: datetime) -> bool:
    """Whether a gang has waited so long for quota that it no longer holds any of its workers.

    It asks for all its workers from time to time, and blocks no other job meanwhile.
    """
    since = over_quota_since(job)
    return since is not None and now - since >= PATIENCE and lacks_quota(job)


def gives_back(job: JobSnapshot, now: datetime) -> bool:
    """Whether a gang that only asks has got a part of its workers, and must give them back."""
    return bool(present(job)) and only_asks(job, now)


def is_incomplete(job: JobSnapshot) -> bool:
    """Whether a job wants to train, and does not have the nodes for its smallest world yet."""
    if job.deleting or not wants_nodes(job.spec, job.status):
        return False
    return placed(job) < smallest(job.effective_workers)


def placed(job: JobSnapshot) -> int:
    """Return how many workers have a node."""
    return sum(worker.pod.node is not None for worker in present(job))


def wants_nodes(spec: TrainingJobSpec, status: JobState) -> bool:
    """Whether a job should train, and does not train yet."""
    return not (
        spec.suspend or holds_back(status) or training(status) or waits_before_asking_again(status)
    )


def must_wait(view: View, status: JobState) -> bool:
    """Whether the job may hold no nodes now; workers that train, or hold the state, stay.

    A job that waits before it asks again holds none, even for workers that hold the state.
    """
    if training(status):
        return False
    if waits_before_asking_again(status):
        return True
    if view.job.may_hold_nodes:
        return False
    return relied_on(status).isdisjoint(view.alive_worker_ids)


def present(job: JobSnapshot) -> list[Worker]:
    """Return the workers that have not ended, and are not about to."""
    return [w for w in job.workers if w.pod.end is None and not w.pod.deleting]
