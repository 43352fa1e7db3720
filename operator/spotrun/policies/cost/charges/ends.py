"""The end of a lost worker's charge: the moment at which it was last known to run.

If a kubelet reports when containers ended, that counts. If it reports nothing any more, it is not
known whether the containers run: the charge ends when Kubernetes marks the node unreachable, or
when the worker's agent was last heard, if that is later. The end is recorded in the status, because
the node may be removed, or come back. Only news of the worker moves a recorded end: its agent calls
again, its kubelet reports another end, or its kubelet shows it as running for long.
"""

from datetime import datetime, timedelta

from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Ends

MOST_ENDS = 512
"""The most entries in status. Further ends are not recorded; they are what the nodes say."""
_SPEAKS_SECONDS = 10.0
"""A worker's agent that works calls every 5 s."""
_BACK_SECONDS = 60.0
"""A kubelet that comes back reports within seconds which of its pods have ended meanwhile."""


def charge_ends(
    worker: Worker, now: datetime, *, is_given_up: bool, noted: datetime | None = None
) -> datetime | None:
    """Return when a worker stopped costing; None while it still costs, or may."""
    pod, node = worker.pod, worker.node
    if pod.ended_at is not None and (noted is None or not pod.end_is_guessed):
        return min(pod.ended_at, now)
    if noted is not None and not _has_run_on(worker, noted, now):
        return min(noted, now)
    disrupted_at, heard_at = pod.disrupted_at, _heard_at(worker, now)
    if disrupted_at is not None and heard_at is not None:
        disrupted_at = max(disrupted_at, heard_at)  # that condition is only the begin of a drain
    if pod.is_over:  # as set by its kubelet, without the end of a container, or by another program
        unheard_at = node.unreachable_at if node is not None else None
        return _earliest(disrupted_at, unheard_at, now=now)
    if node is not None and node.gone:
        signs = (node.gone_at, node.unreachable_at, disrupted_at, heard_at)
        return _earliest(*signs, now=now)
    if node is None or node.unreachable_at is None or not is_given_up or _speaks(worker):
        return None
    return min(max(node.unreachable_at, heard_at or node.unreachable_at), now)


def latest_ends(ends: Ends) -> Ends:
    """Return the ends for which status has room: the latest ones."""
    moments = sorted(set(ends.values()), reverse=True)
    if len(moments) <= MOST_ENDS:
        return ends
    earliest = moments[MOST_ENDS - 1]
    return {worker_id: end for worker_id, end in ends.items() if end >= earliest}


def _has_run_on(worker: Worker, noted: datetime, now: datetime) -> bool:
    """Whether there is news of a worker from after its recorded end."""
    node = worker.node
    if _speaks(worker):
        return now - noted > timedelta(seconds=_SPEAKS_SECONDS)
    if worker.pod.ended_at is not None or worker.pod.is_over or node is None:
        return False
    back_at = node.ready_at
    if node.gone or not node.ready or back_at is None or back_at < noted:
        return False
    return now - back_at >= timedelta(seconds=_BACK_SECONDS)


def _speaks(worker: Worker) -> bool:
    """Whether a worker's agent calls. The time since then is not measured by the wall clock."""
    return worker.agent is not None and worker.agent.heard_seconds <= _SPEAKS_SECONDS


def _earliest(*moments: datetime | None, now: datetime) -> datetime:
    """Return the first sign of an end; now, if there is none."""
    return min([now, *(moment for moment in moments if moment is not None)])


def _heard_at(worker: Worker, now: datetime) -> datetime | None:
    agent = worker.agent
    return now - timedelta(seconds=agent.heard_seconds) if agent is not None else None
