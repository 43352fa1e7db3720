"""Workers that leave: those that are not wanted, and at the end of the job the last ones.

When workers are told that the job has succeeded, they end by themselves: those that wait at once,
those that trained once their script has done what follows its loop. They cost until then, like any
worker.
"""

from datetime import datetime, timedelta

from spotrun.api.names import Phase
from spotrun.policies.budget.policy import is_spent
from spotrun.policies.cost.charges.times import ended_at
from spotrun.policies.lifecycle.deletion import over_since
from spotrun.policies.lifecycle.suspension import may_remove, who_holds
from spotrun.policies.policy import Policy, Wakes
from spotrun.policies.workers.policy import removals
from spotrun.state.actions import Remove, Withdraw
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View, leaves_at
from spotrun.state.world_members import training

GOODBYE = timedelta(seconds=30)
"""A worker that has no more work may stay this long."""
LAST_WORK = timedelta(minutes=10)
"""The scripts of workers that trained may take this long for what follows their loop. To write
weights of 100 GB at 200 MB/s takes 8 min; a script that never ends should not cost for much
longer."""


def departures(view: View, status: JobState) -> tuple[Remove | Withdraw, ...]:
    """Remove the workers that are not wanted, except those that may still end by themselves."""
    if not may_remove(view, status):
        return ()
    left = {worker_id for worker_id, seconds in _goodbyes(view, status).items() if seconds > 0}
    return tuple(one for one in removals(view, status) if one.worker_id not in left)


def goodbye_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the next of these is removed if it has not ended by then; None: there is none."""
    return min((one for one in _goodbyes(view, status).values() if one > 0), default=None)


def _goodbyes(view: View, status: JobState) -> dict[int, float]:
    """Return how long each worker of a finished job may still take to end by itself."""
    return view.once("goodbyes", (status,), lambda: _find_goodbyes(view, status))


def _find_goodbyes(view: View, status: JobState) -> dict[int, float]:
    end = over_since(status)
    if status.phase is Phase.FAILED and end is not None:
        left = (end + GOODBYE - view.now).total_seconds()
        return {one.worker_id: left for one in view.alive if _ends_by_itself(one)}
    if status.phase is not Phase.SUCCEEDED or end is None:
        return {}
    there = [worker for worker in view.job.workers if ended_at(view, worker) is None]
    if not there:
        return {}
    busy = frozenset() if _is_called_off(view, status) else frozenset(training(status))
    ends = {one.worker_id: _goes_at(one, end, is_busy=one.worker_id in busy) for one in there}
    return {worker_id: (moment - view.now).total_seconds() for worker_id, moment in ends.items()}


def _ends_by_itself(worker: Worker) -> bool:
    """Whether a worker of a failed job has failed itself: it ends, and its pod and log stay."""
    return worker.agent is not None and worker.agent.report.failed is not None


def _goes_at(worker: Worker, end: datetime, *, is_busy: bool) -> datetime:
    """Return when a running worker is removed; sooner if its node goes away and waits for it.

    A worker whose training has ended while its side containers run has no last work to do.
    """
    if not is_busy or worker.pod.end is not None:
        return end + GOODBYE
    notice = leaves_at(worker)
    latest = end + LAST_WORK
    return latest if notice is None else max(end + GOODBYE, min(latest, notice))


def _is_called_off(view: View, status: JobState) -> bool:
    """Whether a cause that suspends a job while it trains also stops its last work."""
    return bool(who_holds(view, status)) or is_spent(view, status)


DEPARTURES = Policy(
    wake_after_seconds=goodbye_wake_after_seconds, wakes=Wakes.ALWAYS, actions=departures
)
