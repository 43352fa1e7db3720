"""The decision about one job: what status says next, and what is to be done to the cluster.

Status is the ledger. First a chain of policies concludes the next status from what is known; then
the actions follow from that status and the cluster alone. They may be done only once the status is
stored, so an operator that dies in between finds in the cluster all that its successor needs.
"""

from datetime import datetime

from spotrun.api.spec.placement import CapacityPolicy
from spotrun.policies.budget.limits import within_rate
from spotrun.policies.budget.policy import budget_again_seconds, budget_news, keep_budget
from spotrun.policies.cost.corrections import correction_news, note_ends
from spotrun.policies.cost.goodput.ratio import count_useful
from spotrun.policies.cost.goodput.save_stalls import count_saving
from spotrun.policies.cost.goodput.steps import count_work
from spotrun.policies.cost.meter import meter
from spotrun.policies.cost.unused_nodes import count_idle
from spotrun.policies.deadline.eta import foresee_end
from spotrun.policies.deadline.measurements import measure_pace
from spotrun.policies.deadline.policy import finishes_by, keep_deadline
from spotrun.policies.failures.node_rejections import note_rejected, rejection_again_seconds
from spotrun.policies.failures.policy import (
    count_failures,
    note_failed,
    retry_again_seconds,
    verdict_again_seconds,
)
from spotrun.policies.fallback_chain import let_go
from spotrun.policies.lifecycle.completion import complete
from spotrun.policies.lifecycle.interruptions import count_interruptions, end_interruption
from spotrun.policies.lifecycle.progress import follow
from spotrun.policies.lifecycle.suspension import (
    checkpoint_again_seconds,
    schedule_again_seconds,
    suspend,
)
from spotrun.policies.placement.policy import placement_again_seconds
from spotrun.policies.placement.pool_choice import has_just_lost
from spotrun.policies.placement.supply import there
from spotrun.policies.report.cost import show_cost
from spotrun.policies.report.cost_announcements import annotations, final_cost
from spotrun.policies.report.deadline_condition import check_schedule
from spotrun.policies.report.phase import describe
from spotrun.policies.report.write_failures import check_writes
from spotrun.policies.report.write_rate import refresh_seconds, seconds_to_write
from spotrun.policies.scaling.idle import hold_idle, idle_again_seconds, watch_idleness
from spotrun.policies.scaling.policy import (
    choose_workers,
    resizes,
    scaling_again_seconds,
    scaling_news,
)
from spotrun.policies.workers.agent_version import check_agents
from spotrun.policies.workers.capacity_condition import check_capacity
from spotrun.policies.workers.cleanup import (
    deletion_again_seconds,
    deletions,
    departures,
    goodbye_again_seconds,
)
from spotrun.policies.workers.node_avoidance import kept_away_again_seconds, note_lost
from spotrun.policies.workers.partial_capacity import (
    give_back_unused,
    unused_again_seconds,
    within_reach,
)
from spotrun.policies.workers.policy import creations, give_numbers, target_size
from spotrun.policies.workers.settlement import releases, settle
from spotrun.policies.workers.volume_check import check_volume
from spotrun.policies.world.checkpoint_requests import order_checkpoint
from spotrun.policies.world.policy import again_seconds, next_world
from spotrun.state.actions import Action, Decision
from spotrun.state.job_state import NOTHING_UNUSED, JobState
from spotrun.state.sizes import wanted
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import FINISHED, Policy, View
from spotrun.state.world_members import training

_SHORTEST_SECONDS = 0.01  # a clock may be a little behind the moment it was asked to wait for
_DOUBT_SECONDS = 30.0  # until it is looked whether clocks agree by now

POLICIES: tuple[Policy, ...] = (
    follow,  # how far is it?
    measure_pace,  # how fast is it?
    complete,  # is it done?
    count_failures,  # did it fail, and once too often?
    keep_deadline,  # is its time over?
    meter,  # what does each worker cost?
    note_ends,  # and which of the lost cost no more?
    keep_budget,  # is that too much?
    hold_idle,  # does it do nothing for too long?
    suspend,  # does anybody hold it back?
    count_work,  # what did the money buy?
    count_useful,  # and how much of it did?
    count_saving,  # what went into saving?
    count_idle,  # what did nodes cost besides?
    order_checkpoint,  # must its state be saved first?
    settle,  # who has ended, and is charged now?
    note_lost,  # who was given up, and may still run?
    note_rejected,  # whom did a node not take?
    count_interruptions,  # whom did the platform take?
    give_back_unused,  # which nodes can nobody use?
    give_numbers,  # who is missing?
    next_world,  # who trains with whom?
    note_failed,  # who has failed, and is still there?
    end_interruption,  # is that made good?
    check_capacity,  # is there room for all?
    check_schedule,  # will it be in time?
    foresee_end,  # and when is it done?
    choose_workers,  # has it the right size?
    watch_idleness,  # does it do anything?
    check_volume,  # can they all save?
    check_agents,  # are they understood?
    check_writes,  # can it be done?
    show_cost,  # what has it cost?
    describe,  # what is to be said about it?
)


_FOR_READERS = frozenset({count_work, count_useful, count_saving, count_idle, show_cost})
"""No decision follows from what these conclude: what the money bought is for people to read."""
_UNREAD = tuple(policy for policy in POLICIES if policy not in _FOR_READERS)


def decide(job: JobSnapshot, now: datetime, *, is_read: bool = True) -> Decision:
    """Conclude the next status and what is to be done.

    Where nobody reads the status, as in a replay, what is only there to be read is left out, and
    so are the looks that keep it fresh where nothing else could come of them.
    """
    if job.deleting or job.broken is not None:
        return let_go(job, now)
    view = View(job, now)
    view = _seen_as(view, within_rate(view))
    view = _seen_as(view, within_reach(view))
    status = job.status
    for policy in POLICIES if is_read else _UNREAD:
        status = policy(view, status)
    refresh = refresh_seconds(job) if is_read or _depends_on_looks(view) else None
    wait = _seconds_to_write(job, status, refresh)
    if wait > 0:
        status = job.status
    again = _again(view, status, refresh)
    if wait > 0:
        again = min(wait, again)
    budget = job.spec.budget
    news = (
        *budget_news(job.status, status, budget),
        *scaling_news(job.status, status),
        *correction_news(job.status, status),
        *final_cost(job.status, status),
    )
    return Decision(status, _actions(view, status), news, again_seconds=again)


def _depends_on_looks(view: View) -> bool:
    """Whether a look may find something to do though neither an event nor its moment has come.

    That a pool has rested, that lasting workers may give way, or that nodes are of no use.
    """
    job, placed = view.job, there(view).num_placed
    is_mixed = job.spec.placement.capacity is CapacityPolicy.MIXED
    return (
        job.status.unused != NOTHING_UNUSED
        or placed < wanted(job.spec.workers)
        or (is_mixed and bool(there(view).lasting))
        or any(has_just_lost(view, pool) for pool in job.market.pools)
    )


def _seen_as(view: View, job: JobSnapshot) -> View:
    """Look at the job as it is limited; where nothing limits it, what was concluded holds."""
    return view if job is view.job else view.limited(job)


def _actions(view: View, status: JobState) -> tuple[Action, ...]:
    return (
        *releases(view, status),
        *departures(view, status),
        *creations(view, status),
        *resizes(view, status),
        *annotations(view, status),
        *deletions(view, status),
    )


def _seconds_to_write(job: JobSnapshot, new: JobState, refresh: float | None) -> float:
    """How long a status can wait to be written; one that nobody reads is kept at once."""
    if refresh is None:
        return 0.0
    return seconds_to_write(job.status, new, job.written_seconds, refresh)


def _again(view: View, status: JobState, refresh: float | None) -> float:
    """The next moment at which time alone changes the decision."""
    goodbye = goodbye_again_seconds(view, status)
    deletion = deletion_again_seconds(view, status)
    waits = [deletion, goodbye]
    if not view.is_time_sure and (deletion is not None or status.phase not in FINISHED):
        waits.append(_DOUBT_SECONDS)
    if goodbye is not None:  # it costs, and may be called off
        waits += [
            budget_again_seconds(view, status),
            schedule_again_seconds(view),
            refresh,
        ]
    if status.phase not in FINISHED:
        waits += [
            again_seconds(view, status),
            retry_again_seconds(view, status),
            rejection_again_seconds(view, status),
            kept_away_again_seconds(view, status),
            verdict_again_seconds(view, status),
            checkpoint_again_seconds(view, status),
            budget_again_seconds(view, status),
            schedule_again_seconds(view),
            placement_again_seconds(view, status, target_size(view, status)),
            scaling_again_seconds(view, status),
            idle_again_seconds(view, status),
            unused_again_seconds(view, status),
            refresh if training(status) else None,
            *(_until(view, moment) for moment in (finishes_by(view), _next_kill(view))),
        ]
    due = (wait for wait in waits if wait is not None and wait > 0)
    return max(min(due, default=float("inf")), _SHORTEST_SECONDS)


def _next_kill(view: View) -> datetime | None:
    kills = (w.pod.killed_at for w in view.alive if w.pod.deleting and w.pod.killed_at)
    return min(kills, default=None)


def _until(view: View, moment: datetime | None) -> float | None:
    return None if moment is None else (moment - view.now).total_seconds()
