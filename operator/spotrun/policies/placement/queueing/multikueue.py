"""A job that another controller runs: this operator only asks its queue for workers.

Kueue copies the job and its Workload to another cluster, deletes the copies when the originals are
deleted here, and copies the status back. So another operator writes this status, and it says
nothing about workers here.
"""

from collections.abc import Iterator
from datetime import datetime

from spotrun.api.names import MULTIKUEUE
from spotrun.policies.placement.queueing.kueue import asked, taken
from spotrun.state.actions import Decision, LeaveQueue, QueueAction
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import View


def handed_over(job: JobSnapshot, now: datetime) -> Decision:
    """Ask for workers, once, if Kueue runs the job elsewhere; do nothing otherwise."""
    is_here = not job.deleting and job.broken is None
    is_asked_for = is_here and job.spec.managed_by == str(MULTIKUEUE)
    return Decision(job.status, tuple(_requests(View(job, now))) if is_asked_for else ())


def _requests(view: View) -> Iterator[QueueAction]:
    queue = view.job.queue
    if queue is None or not queue.api_version:
        return
    if len(queue.open_requests) < len(queue.requests):
        return  # a request is closed: the job has ended
    if view.job.spec.suspend:
        yield from map(LeaveQueue, queue.open_requests)
        return
    yield from taken(view, queue)
    if not any(one.is_reserved for one in queue.open_requests):
        yield from asked(view, queue)
