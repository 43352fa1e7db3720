"""Nodes that new workers avoid because a worker was lost, blamed, rejected or given notice there.

Kubernetes reports a dead node as ready for another 40 s, and of all kinds of notices only a taint
keeps new pods away. The nodes that a pod avoids are fixed when it is created. So a pod that finds
no node is withdrawn once it may use a node that it had to avoid.
"""

from collections.abc import Iterable
from dataclasses import replace

from spotrun.api.names import Reason
from spotrun.api.status import MOST_AVOIDED
from spotrun.policies.failures.node_blame import nodes_to_avoid
from spotrun.policies.failures.node_rejections import nodes_that_reject
from spotrun.policies.placement.supply import patience_seconds, waits_seconds
from spotrun.policies.policy import Policy
from spotrun.state.actions import Withdraw
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View

_ALIVE_SECONDS = 0.5
"""A living worker answers a request for a sign of life within milliseconds."""


def note_lost(view: View, status: JobState) -> JobState:
    """Remember a worker that was given up but may still run, until it is settled.

    Once the others train without it, nothing else in the status refers to it.
    """
    known, settled = status.lost, status.settled
    given_up = {
        worker_id
        for worker_id, outcome in view.ends.items()
        if outcome.cause is Reason.NODE_LOST and not outcome.is_final
    }
    lost = frozenset(n for n in known | given_up if n in view.by_worker_id and n not in settled)
    return status if lost == known else replace(status, lost=lost)


def avoided(view: View, status: JobState) -> tuple[str, ...]:
    """The host names of the nodes on which no worker may be created now."""
    dead, leaving = _dead(view, status), _leaving(view)
    nodes = dict.fromkeys((*sorted(dead), *sorted(leaving)))
    bad = (*nodes_to_avoid(status), *nodes_that_reject(view, status))
    return tuple(dict.fromkeys((*bad, *tuple(nodes)[:MOST_AVOIDED])))


def kept_away_in_vain(view: View, status: JobState) -> tuple[Withdraw, ...]:
    """Withdraw the workers that find no node but need no longer avoid all nodes that they avoid."""
    why = "it found no other node, and nodes that it had to avoid may be used again"
    return tuple(
        Withdraw(w.worker_id, w.pod.uid, w.pod.version, Reason.BETTER_POOL, why)
        for w, seconds in _kept_away_in_vain(view, status)
        if seconds <= 0
    )


def kept_away_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the next of these has waited long enough to be withdrawn."""
    waits = (seconds for _, seconds in _kept_away_in_vain(view, status))
    return min((seconds for seconds in waits if seconds > 0), default=None)


def _kept_away_in_vain(view: View, status: JobState) -> list[tuple[Worker, float]]:
    """Return the workers that wait for a node, and how long each may still wait."""
    waiting = [w for w in view.staying if w.node is None and w.pod.unschedulable and w.pod.avoids]
    if not waiting:
        return []
    still = set(avoided(view, status))
    return [
        (w, patience_seconds(view, w) - waits_seconds(view, w))
        for w in waiting
        if not still.issuperset(w.pod.avoids)
    ]


def _dead(view: View, status: JobState) -> set[str]:
    """Return the nodes where a worker was lost whose end is not reported yet."""
    lost = (view.by_worker_id[n] for n in sorted(status.lost) if n in view.by_worker_id)
    dead = set(_hosts(w for w in lost if w.pod.end is None and not w.pod.is_over))
    return dead.difference(_hosts(filter(_gives_signs_of_life, view.alive))) if dead else dead


def _leaving(view: View) -> set[str]:
    return set(_hosts(filter(_leaves_with_its_node, view.alive)))


def _leaves_with_its_node(worker: Worker) -> bool:
    """Whether the node was given notice, or may be shutting down, which is not announced."""
    has_notice = worker.node is not None and worker.node.leaves_at is not None
    is_leaving = worker.agent is not None and worker.agent.report.leaving
    return has_notice or (is_leaving and not worker.pod.deleting)


def _hosts(workers: Iterable[Worker]) -> Iterable[str]:
    nodes = (worker.node for worker in workers)
    return (node.hostname or node.name for node in nodes if node is not None and not node.gone)


def _gives_signs_of_life(worker: Worker) -> bool:
    return worker.agent is not None and worker.agent.heard_seconds <= _ALIVE_SECONDS


NODE_AVOIDANCE = Policy(note_lost, wake_after_seconds=kept_away_wake_after_seconds)
