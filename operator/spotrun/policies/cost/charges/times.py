"""The time a worker is paid for: from its binding to a node until its containers have ended.

A worker that never got a node is free. `ends` says until when a lost worker is charged. Clocks may
differ, so no worker ends in the future, or costs less than nothing.
"""

from collections.abc import Mapping
from datetime import datetime

from spotrun.policies.cost.charges.ends import charge_ends
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.cost import Ends
from spotrun.state.view import View
from spotrun.state.worker_outcomes import NEW_LEADER_SECONDS


def unsettled(view: View, status: JobState) -> list[Worker]:
    """The workers that have or had a node, and are not in the sums yet."""
    return view.once_unlimited("unsettled", (status.settled,), lambda: _unsettled(view, status))


def _unsettled(view: View, status: JobState) -> list[Worker]:
    settled = status.settled
    return [
        worker
        for worker in view.job.workers
        if worker.pod.node is not None and worker.worker_id not in settled
    ]


def started_at(worker: Worker) -> datetime | None:
    """Return when a worker got its node; None: it has none, and costs nothing."""
    if worker.pod.node is None:
        return None
    return worker.pod.scheduled_at or worker.pod.created_at


def ended_at(view: View, worker: Worker) -> datetime | None:
    """Return when a worker stopped costing; None while it still costs, or may."""
    return all_ends(view)[worker.worker_id]


def all_ends(view: View) -> Mapping[int, datetime | None]:
    """Return the same of all workers, by worker id."""
    return view.once_unlimited("ends of charges", (), lambda: _all_ends(view))


def _all_ends(view: View) -> dict[int, datetime | None]:
    noted, now = noted_ends(view), view.now
    return {
        one.worker_id: charge_ends(
            one, now, is_given_up=_is_given_up(view, one), noted=noted.get(one.worker_id)
        )
        for one in view.job.workers
    }


def noted_ends(view: View) -> Ends:
    """Return the ends of lost workers that earlier passes recorded."""
    return view.job.status.accumulators.ends


def may_still_cost(view: View, worker: Worker) -> bool:
    """Whether another container may still run after the one that trains has ended."""
    return worker.pod.node is not None and ended_at(view, worker) is None


def _is_given_up(view: View, worker: Worker) -> bool:
    """Whether a worker is given up, or its agent never called although it had time to."""
    is_mute = worker.agent is None and view.job.leading_seconds >= NEW_LEADER_SECONDS
    return worker.worker_id in view.ends or is_mute
