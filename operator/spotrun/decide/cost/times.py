"""When a worker costs: from when it was bound to its node until its containers have ended.

Who never got a node is free. Of a node that vanished nobody says when: its last sign of life
counts. Clocks differ: nobody ends in the future, or costs less than nothing.
"""

from datetime import datetime, timedelta

from spotrun.api.status import TrainingJobStatus
from spotrun.decide.serials import ranges
from spotrun.decide.snapshot import Node, Worker
from spotrun.decide.view import View


def unsettled(view: View, status: TrainingJobStatus) -> list[Worker]:
    """The workers that have or had a node, and are not in the sums yet."""
    settled = ranges(status.settled)
    return [
        worker
        for worker in view.job.workers
        if worker.pod.node is not None and worker.serial not in settled
    ]


def started_at(worker: Worker) -> datetime | None:
    """When it got its node; None: it has none, and costs nothing."""
    if worker.pod.node is None:
        return None
    return worker.pod.scheduled_at or worker.pod.created_at


def ended_at(view: View, worker: Worker) -> datetime | None:
    """When it stopped costing; None while it goes on, or may."""
    pod, node = worker.pod, worker.node
    if pod.ended_at is not None:
        return min(pod.ended_at, view.now)
    if pod.is_over:  # by its kubelet, before or without a container that tells when
        return min(pod.disrupted_at or view.now, view.now)
    if node is not None and node.gone:
        return min(_last_sign_of_life(view, worker, node), view.now)
    return None


def may_still_cost(view: View, worker: Worker) -> bool:
    """Whether some container runs on after the one that trains has ended."""
    return worker.pod.node is not None and ended_at(view, worker) is None


def _last_sign_of_life(view: View, worker: Worker, node: Node) -> datetime:
    signs = [moment for moment in (node.gone_at, worker.pod.disrupted_at) if moment is not None]
    if worker.agent is not None:
        signs.append(view.now - timedelta(seconds=worker.agent.heard_seconds))
    return min(signs, default=view.now)
