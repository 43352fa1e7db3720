"""The decision about one job: what status says next, and what is to be done to the cluster.

Status is the ledger. First a chain of policies concludes the next status from what is known; then
the actions follow from that status and the cluster alone. They may be done only once the status is
stored, so an operator that dies in between finds in the cluster all that its successor needs.
"""

from collections.abc import Callable
from datetime import datetime

from spotrun.api.status import TrainingJobStatus
from spotrun.decide.actions import Action, Decision
from spotrun.decide.complete import complete
from spotrun.decide.failures import count_failures, waits_for_retry
from spotrun.decide.finished import GOODBYE_SECONDS, deletions, may_end_by_themselves
from spotrun.decide.interruptions import count_interruptions
from spotrun.decide.pace import REFRESH_SECONDS, seconds_to_write
from spotrun.decide.phase import describe
from spotrun.decide.progress import follow
from spotrun.decide.roster import creations, give_numbers, removals
from spotrun.decide.schedule import next_change
from spotrun.decide.settle import releases, settle
from spotrun.decide.snapshot import JobSnapshot
from spotrun.decide.suspend import CHECKPOINT_SECONDS, may_remove, suspend
from spotrun.decide.view import FINISHED, View
from spotrun.decide.world import again_seconds, next_world, training

Policy = Callable[[View, TrainingJobStatus], TrainingJobStatus]

POLICIES: tuple[Policy, ...] = (
    follow,  # how far is it?
    complete,  # is it done?
    count_failures,  # did it fail, and once too often?
    suspend,  # does anybody hold it back?
    settle,  # who has ended, and is charged now?
    count_interruptions,  # whom did the platform take?
    give_numbers,  # who is missing?
    next_world,  # who trains with whom?
    describe,  # what is to be said about it?
)


def decide(job: JobSnapshot, now: datetime) -> Decision:
    """Conclude the next status and what is to be done."""
    if job.deleting:
        return _let_go(job, now)
    view = View(job, now)
    status = job.status
    for policy in POLICIES:
        status = policy(view, status)
    wait = seconds_to_write(job.status, status, job.written_seconds)
    if wait > 0:
        status = job.status
    again = min(wait, _again(view, status))
    return Decision(status, _actions(view, status), again_seconds=again)


def _actions(view: View, status: TrainingJobStatus) -> tuple[Action, ...]:
    stays = may_end_by_themselves(view, status) or not may_remove(view, status)
    return (
        *releases(view, status),
        *(() if stays else removals(view, status)),
        *creations(view, status),
        *deletions(view, status),
    )


def _let_go(job: JobSnapshot, now: datetime) -> Decision:
    """Of a job that is being deleted only its pods' finalizers are ours; the rest is collected."""
    view = View(job, now)
    status = settle(view, job.status)
    return Decision(status, releases(view, status))


def _again(view: View, status: TrainingJobStatus) -> float:
    """The next moment at which time alone changes the decision."""
    waits = [again_seconds(view, status)]
    if waits_for_retry(view, status) and status.restarts and status.restarts.retry_at:
        waits.append((status.restarts.retry_at.datetime - view.now).total_seconds())
    if view.job.spec.schedule is not None and status.phase not in FINISHED:
        change = next_change(view.job.spec.schedule, view.now)
        waits.append((change - view.now).total_seconds() if change is not None else None)
    if status.suspended_by and view.alive:
        waits.append(CHECKPOINT_SECONDS)
    if status.phase in FINISHED and view.alive:
        waits.append(GOODBYE_SECONDS)
    finished = view.job.spec.finished
    if status.phase in FINISHED and finished is not None and finished.delete_after is not None:
        waits.append(finished.delete_after.seconds)
    if training(status):
        waits.append(REFRESH_SECONDS)
    return min((wait for wait in waits if wait is not None), default=float("inf"))
