"""Rejections: a node does not accept a worker that was bound to it. This is no failure of the job.

The scheduler forgets such a pod at once and would bind the next one to the same node. So new
workers avoid this node for a while, and are created after a pause, which grows with each further
rejection.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.field_types.text_values import Time
from spotrun.api.names import Reason
from spotrun.api.status import MOST_AVOIDED
from spotrun.policies.failures.backoff import pause_after, pause_seconds
from spotrun.policies.policy import Policy
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import PodPhase, Worker
from spotrun.state.stored.failures import Rejections
from spotrun.state.view import View, holds_back
from spotrun.state.worker_outcomes import is_rejected

AVOIDED_FOR = timedelta(minutes=2)
"""The node is avoided for this long after the pause. Within this time the device plugin of a node
that has started again registers."""


def note_rejected(view: View, status: JobState) -> JobState:
    """Begin a pause, and remember the nodes; count each rejection once, until it is settled."""
    settled = view.job.status.settled
    new = [w for w in view.job.workers if w.worker_id not in settled and is_rejected(w.pod)]
    if not new or holds_back(status):
        return status
    is_new = not waits_after_rejection(view, status)
    noted = _noted(view, status, new)
    status = replace(status, rejections=noted)
    if not is_new:
        return status
    said = {"times": str(noted.count), "pauseSeconds": f"{pause_after(noted.count).seconds}"}
    return record(view, status, Reason.REJECTED.value, noted.message, said)


def waits_after_rejection(view: View, status: JobState) -> bool:
    """Whether no workers are created for now."""
    known = status.rejections
    return known is not None and pause_seconds(view, known.retry_at) is not None


def nodes_that_reject(view: View, status: JobState) -> tuple[str, ...]:
    """The host names of the nodes that have rejected workers recently."""
    known = status.rejections
    return known.nodes if known is not None and view.now < _avoided_until(known) else ()


def rejection_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when workers are created again, or may use those nodes again."""
    known = status.rejections
    if known is None:
        return None
    moments = (known.retry_at, _avoided_until(known))
    waits = ((moment - view.now) / timedelta(seconds=1) for moment in moments)
    return min((wait for wait in waits if wait > 0), default=None)


def why_rejected(view: View, status: JobState) -> str | None:
    """Return why a node rejected a worker recently, while too few workers have a node."""
    known = status.rejections
    if known is None or view.now >= _avoided_until(known):
        return None
    if sum(worker.pod.node is not None for worker in view.staying) >= view.limited_size:
        return None
    retry_at = Time.of(known.retry_at)
    return f"{known.message}; its replacement is created at {retry_at}, for another node"


def _noted(view: View, status: JobState, new: list[Worker]) -> Rejections:
    known, last = status.rejections, new[-1]
    if known is not None and waits_after_rejection(view, status):
        count, retry_at = known.count, known.retry_at  # they were created before the pause
    else:
        is_first = known is None or _is_one_taken_after(view, known.worker)
        count = 1 if is_first or known is None else known.count + 1
        retry_at = view.now + pause_after(count)
    before = known.nodes if known is not None else ()
    said = view.ends[last.worker_id].message
    return Rejections(
        count=count,
        worker=last.worker_id,
        retry_at=retry_at,
        nodes=_newest_last(before, map(_host, new)),
        message=f"node {last.pod.node} rejected worker {last.worker_id}: {said}"[:MAX_DETAIL_CHARS],
    )


def _is_one_taken_after(view: View, worker_id: int) -> bool:
    return any(w.worker_id > worker_id and w.pod.phase is PodPhase.RUNNING for w in view.alive)


def _newest_last(before: Iterable[str], new: Iterable[str]) -> tuple[str, ...]:
    named = [*before, *new]
    return tuple(reversed(dict.fromkeys(reversed(named))))[-MOST_AVOIDED:]


def _host(worker: Worker) -> str:
    hostname = worker.node.hostname if worker.node is not None else ""
    return hostname or worker.pod.node or ""


def _avoided_until(known: Rejections) -> datetime:
    return known.retry_at + AVOIDED_FOR


NODE_REJECTIONS = Policy(note_rejected, wake_after_seconds=rejection_wake_after_seconds)
