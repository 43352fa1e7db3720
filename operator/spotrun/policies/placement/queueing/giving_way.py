"""Giving way: a job gives workers to one of higher priority that preempts, and gets them back.

`preemption.py` chooses from all jobs which workers each gives, and each job carries that out by
itself. It shrinks as with any other limit on its size, or it is suspended after a checkpoint. While
the other job lacks nodes, nothing comes back. After that, the workers come back if there is room.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from spotrun.api.names import Reason, SuspendedBy
from spotrun.api.spec.preempts import Preempts
from spotrun.policies.placement.queueing.gang import placed, present
from spotrun.policies.placement.queueing.partial_capacity_status import waits_before_asking_again
from spotrun.policies.placement.queueing.quota import is_over_quota
from spotrun.policies.policy import Policy
from spotrun.policies.pool.eligibility import offers
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.sizes import Preemptor, RoomMade, SizeLimit, allowed, smallest
from spotrun.state.snapshot import JobSnapshot, Worker
from spotrun.state.stored.workers import GivenWay
from spotrun.state.view import FINISHED, View, holds_back

REST = timedelta(seconds=60)
"""Room that was given is not taken back sooner, and a job that got it back keeps it as long: a job
that starts and stops all the time must not stop another one each time."""
LONGEST_HOLD = timedelta(minutes=10)
"""A job whose room another job uses asks for nodes like any other job after this: autoscalers may
create some."""
LOOK_SECONDS = 5.0


def may_preempt(job: JobSnapshot) -> bool:
    """Whether a job may take nodes from other jobs if it lacks nodes."""
    return job.spec.placement.preempts is Preempts.LOWER_PRIORITY and job.queue is None


def waits_for_room(job: JobSnapshot) -> bool:
    """Whether a job that preempts has fewer nodes than its smallest world."""
    wants_none = job.deleting or job.spec.suspend or holds_back(job.status)
    if not may_preempt(job) or wants_none or waits_before_asking_again(job.status):
        return False
    return placed(job) < smallest(job.effective_workers)


def claimed_workers(job: JobSnapshot) -> int:
    """Return for how many workers others must make room; 0 until the scheduler has tried all."""
    if not waits_for_room(job) or is_over_quota(job) or not job.may_hold_nodes:
        return 0
    size, those = smallest(job.effective_workers), present(job)
    were_tried = len(those) >= size and len(without_node(job)) == len(those) - placed(job)
    return size - placed(job) if were_tried else 0


def without_node(job: JobSnapshot) -> list[Worker]:
    """Return the workers for which the scheduler found no node, and makes no room by itself.

    It makes room if other pods are lent or have a lower PriorityClass: then no job must give way.
    """
    lacking = (w for w in present(job) if w.pod.node is None and w.pod.unschedulable)
    return [w for w in lacking if not w.pod.is_nominated]


def rests(given: GivenWay | None, now: datetime) -> bool:
    """Whether a job got its room back less than a minute ago, and keeps it for now."""
    return given is not None and given.until is not None and now - given.until < REST


def given_way(view: View) -> GivenWay | None:
    """Return the room that the job gives now, or gave until less than a minute ago."""
    return view.once_unlimited("given way", (), lambda: _given_way(view))


def _given_way(view: View) -> GivenWay | None:
    known, order = view.job.status.gives_way, view.job.precedence.order
    if view.job.status.phase in FINISHED:
        return None
    if order is not None:
        is_known = known is not None and known.until is None and known.uid == order.uid
        if known is not None and is_known and known.workers == order.workers:
            return known
        return GivenWay(to=order.to, uid=order.uid, workers=order.workers, since=view.now)
    if known is None:
        return None
    if known.until is not None:
        return known if rests(known, view.now) else None
    return replace(known, until=view.now) if _gets_it_back(view, known) else known


def _gets_it_back(view: View, known: GivenWay) -> bool:
    preemptor, held = view.job.precedence.preemptor, view.now - known.since
    if held < REST or preemptor is Preemptor.WAITS:
        return False
    if preemptor is Preemptor.IS_GONE or held >= LONGEST_HOLD:
        return True
    return _free_slots(view.job) >= _step(view.job, known.workers)


def _free_slots(job: JobSnapshot) -> int:
    found = offers(job)
    in_pools = sum(pool.free_slots for pool in (*found.spot, *found.stable))
    return in_pools + job.precedence.free_strays


def _step(job: JobSnapshot, kept: int) -> int:
    """Return how many more workers the next larger size has."""
    return next((size - kept for size in allowed(job.effective_workers) if size > kept), 1)


def precedence_limit(view: View) -> SizeLimit | None:
    """Return the limit on size that leaves jobs of higher priority the nodes that they need."""
    given, first = given_way(view), view.job.precedence.grows_after
    if given is not None and given.until is None and given.workers:
        why = f"job {given.to} of higher priority needs the room"
        return SizeLimit(Reason.GIVES_WAY, workers=given.workers, why=why)
    if first:
        why = f"job {first} of higher priority lacks nodes and comes first"
        return SizeLimit(Reason.GIVES_WAY, workers=placed(view.job), why=why)
    return None


def give_way(view: View, status: JobState) -> JobState:
    """Record the room that the job gives, and suspend the job if it gives all its workers."""
    before, given = status.gives_way, given_way(view)
    if given == before:
        return status
    status = _tell(view, replace(status, gives_way=given), before)
    is_held = given is not None and given.until is None and not given.workers
    held = {*(status.suspended_by or ())} - {SuspendedBy.PREEMPTION}
    held |= {SuspendedBy.PREEMPTION} if is_held else set()
    by = tuple(who for who in SuspendedBy if who in held)
    return replace(status, suspended_by=by or None)


def _tell(view: View, status: JobState, before: GivenWay | None) -> JobState:
    given, order = status.gives_way, view.job.precedence.order
    if given is None:
        return status
    if given.until is None:
        why = order.why if order is not None else ""
        numbers = {"workers": str(given.workers)}
        if order is not None:
            numbers["interruptionUsd"] = f"{order.usd.decimal:.2f}"
    else:
        assert before is not None, "only room that was given can end"
        why = f"{_why_back(view, before)}: this job may have all of its workers again"
        numbers = {}
    return record(view, status, Reason.GIVES_WAY.value, why, numbers)


def began_to_give(old: JobState, new: JobState) -> GivenWay | None:
    """Return the room if a change of status made the job give it, or give more of it."""
    before, given = old.gives_way, new.gives_way
    if given is None or given.until is not None:
        return None
    is_known = before is not None and before.until is None and before.uid == given.uid
    return None if before is not None and is_known and before.workers <= given.workers else given


def _why_back(view: View, before: GivenWay) -> str:
    if view.job.precedence.preemptor is Preemptor.IS_GONE:
        return f"job {before.to} no longer needs the room"
    if view.now - before.since >= LONGEST_HOLD:
        return f"job {before.to} has had the room for {LONGEST_HOLD.seconds // 60} min"
    return f"there is room for this job beside job {before.to}"


def tell_room_made(view: View, status: JobState) -> JobState:
    """Record once what others give to this job, or why they give nothing."""
    made, what = view.job.precedence.made or _left_to_queue(view), Reason.MAKES_ROOM.value
    if made is None:
        return status
    said = [one for one in status.decisions if one.what == what]
    if any(one.why == made.words and one.time >= made.at for one in said):
        return status
    if not made.workers and said and said[-1].why == made.words:
        return status
    numbers = {"workers": str(made.workers)}
    return record(view, status, what, made.words, numbers)


def _left_to_queue(view: View) -> RoomMade | None:
    """Return, for a job in a queue, that Kueue and not this operator decides about preemption."""
    job = view.job
    if job.queue is None or job.spec.placement.preempts is not Preempts.LOWER_PRIORITY:
        return None
    words = (
        f"Kueue decides which jobs give way to jobs of queue {job.queue.name}: placement.preempts "
        "has no effect on a job with Kueue's label"
    )
    return RoomMade(job.created_at, words)


def way_wake_after_seconds(_view: View, status: JobState) -> float | None:
    """Return when to check whether room has come back, or the rest after that is over."""
    return None if status.gives_way is None else LOOK_SECONDS


GIVING_WAY = Policy(give_way, wake_after_seconds=way_wake_after_seconds)
ROOM_MADE = Policy(tell_room_made)
