"""Capacity: whether the wanted workers can be had, and if not, why, in Kubernetes' words.

The condition appears only when this is known: with the first world, or with the first worker for
which the scheduler finds no node.
"""

from collections import Counter
from collections.abc import Iterable

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason
from spotrun.policies.placement.excluded_zones import why_left_out
from spotrun.policies.placement.plan import why_forbidden
from spotrun.policies.placement.policy import why_moved, why_no_pool
from spotrun.policies.placement.queueing.gang import must_wait
from spotrun.policies.placement.queueing.partial_capacity_status import asks_for_fewer
from spotrun.policies.placement.replica_homes import topology_value
from spotrun.policies.policy import Policy
from spotrun.policies.workers.policy import size_for_now
from spotrun.state.conditions import find, state
from spotrun.state.job_state import JobState
from spotrun.state.replicas import replicas_of
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import training, world_members

_SAID = 4  # values that a message names


def check_capacity(view: View, status: JobState) -> JobState:
    """State whether as many workers as wanted can be had."""
    if status.phase in FINISHED or must_wait(view, status) or asks_for_fewer(status):
        return status  # a job that waits for its turn asks for no nodes
    kind, wanted = ConditionType.CAPACITY_AVAILABLE, size_for_now(view, status)
    placed = sum(worker.pod.node is not None for worker in view.staying)
    # Further workers only test whether cheaper capacity is available.
    forbidden = not_asked(view)
    lack = (forbidden or no_node(view)) if placed < wanted else None
    if lack is not None:
        why = None if forbidden else _why_no_other_node(view, status, wanted)
        message = (f"of {wanted} workers {lack}" + (f"; {why}" if why else ""))[:MAX_MESSAGE_CHARS]
        return state(view, status, kind, Reason.WAITING_FOR_CAPACITY, message, holds=False)
    stated = find(status, kind)
    was_lacking = stated is not None and stated.status is ConditionStatus.FALSE
    if placed < wanted or not (was_lacking or training(status)):
        return status
    apart = _apart(view, status)
    message = f"every worker has a node{apart}" if wanted else "no workers are wanted"
    return state(view, status, kind, Reason.TRAINING, message, holds=True)


def _apart(view: View, status: JobState) -> str:
    """Describe which training replicas have workers in more than one zone, rack or the like.

    Traffic inside these replicas is slower, and `status.cost.estimatedTransferUsd` omits it.
    """
    workers, key = view.job.effective_workers, view.job.spec.placement.topology.key
    if workers.per_replica == 1:
        return ""
    number, values, members = 0, set[str](), world_members(view, status)
    for replica in replicas_of(members, workers):
        nodes = (worker.node for worker in replica if worker.node is not None)
        there = {topology_value(view, node) for node in nodes} - {""}
        number += len(there) > 1
        values |= there if len(there) > 1 else set()
    if not number:
        return ""
    total = len(members) // workers.per_replica
    where = ", ".join(sorted(values)[:_SAID])
    return f"; {number} of {total} replicas are not in one {key}: workers are in {where}"


def _why_no_other_node(view: View, status: JobState, wanted: int) -> str:
    no_pool = why_no_pool(view, status, wanted)
    return no_pool or why_moved(view, status, wanted) or why_left_out(view, status, wanted)


def no_node(view: View) -> str | None:
    """Describe how many workers find no node, and why; None if no worker is reported so."""
    waiting = [worker for worker in view.alive if worker.pod.node is None]
    refusals = (view.job.turned_down.get(worker.worker_id, "") for worker in waiting)
    said = (
        _said("find no node", (worker.pod.unschedulable for worker in waiting)),
        _said("get none from an autoscaler", refusals),
    )
    return "; ".join(filter(None, said)) or None


def left_out(view: View, status: JobState) -> str | None:
    """Return why a free node is left out because of its zone; None if no node is."""
    return why_left_out(view, status, size_for_now(view, status)) or None


def not_asked(view: View) -> str | None:
    """Return why no node is asked for at all; None if one is."""
    why = why_forbidden(view)
    return f"no further worker is requested: {why}" if why else None


def no_start(view: View) -> str | None:
    """Describe how many workers cannot be started, and why; None if no worker is reported so."""
    return _said("cannot start", [w.pod.stuck for w in view.alive if not w.is_ready])


def _said(what: str, words: Iterable[str]) -> str | None:
    """Describe the most frequent cause: a gang mostly has one problem, not hundreds."""
    counted = Counter(filter(None, words))
    if not counted:
        return None
    return f"{counted.total()} {what}: {counted.most_common(1)[0][0]}"


CAPACITY = Policy(check_capacity)
