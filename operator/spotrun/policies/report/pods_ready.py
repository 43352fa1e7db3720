"""Whether the workers that a queue has admitted are ready: for Kueue's `waitForPodsReady`.

With that setting Kueue takes back the quota of a Workload whose pods are not ready in time, and may
admit no other Workload before they are. A job trains as soon as its smallest world is ready, so the
requests that make up this world become ready with it. Each later request becomes ready with all of
its workers: if there are no nodes for a growth, Kueue takes its quota back, and training continues.
"""

from collections.abc import Iterator

from spotrun.policies.placement.queueing.kueue import wanted
from spotrun.policies.policy import Policy
from spotrun.state.actions import TellReady
from spotrun.state.job_state import JobState
from spotrun.state.sizes import smallest
from spotrun.state.snapshot import PodPhase
from spotrun.state.view import FINISHED, View


def readiness(view: View, status: JobState) -> Iterator[TellReady]:
    """Mark the requests that hold quota as ready or not, if they are not marked yet."""
    queue = view.job.queue
    if queue is None or not queue.api_version or status.phase in FINISHED:
        return
    ready, admitted = _ready(view), 0
    least, most = smallest(view.job.effective_workers), wanted(view)
    for one in queue.open_requests:
        if not one.workers:
            continue
        begins = admitted < least
        admitted += one.workers
        needed = min(least if begins else most, admitted)
        if (ready >= needed) is not one.is_ready:
            yield TellReady(one, ready >= needed)


def _ready(view: View) -> int:
    pods = (worker.pod for worker in view.job.workers)
    return sum(pod.phase is PodPhase.RUNNING and not pod.deleting for pod in pods)


PODS_READY = Policy(actions=readiness, is_for_readers=True)
