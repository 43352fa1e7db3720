"""The decision about one job: its next status, and the actions on the cluster.

Status is the ledger. First a chain of policies concludes the next status from what is known; then
the actions follow from that status and the cluster alone. Actions are done only after the status is
stored. So if an operator dies in between, its successor finds all that it needs in the cluster.
"""

from collections.abc import Callable, Collection
from datetime import datetime

from spotrun.api.spec.placement import CapacityPolicy
from spotrun.policies.budget.checkpoints import SAVING_PLAN
from spotrun.policies.budget.limits import rate_limit
from spotrun.policies.budget.policy import BUDGET
from spotrun.policies.budget.spend.job_policies import (
    SPEND_PERIODS,
    SPEND_VERDICT,
    spend_size_limit,
)
from spotrun.policies.cost.corrections import CORRECTIONS, ENDS_OF_LOST_WORKERS
from spotrun.policies.cost.goodput.ratio import GOODPUT
from spotrun.policies.cost.goodput.save_stalls import SAVE_STALLS
from spotrun.policies.cost.goodput.steps import STEPS
from spotrun.policies.cost.meter import METER
from spotrun.policies.cost.storage.ledger import STORAGE_COST
from spotrun.policies.cost.unused_nodes import UNUSED_NODES
from spotrun.policies.deadline.eta import ETA
from spotrun.policies.deadline.measurements import MEASUREMENTS
from spotrun.policies.deadline.policy import DEADLINE
from spotrun.policies.failures.fixed_size import FIXED_SIZE
from spotrun.policies.failures.node_rejections import NODE_REJECTIONS
from spotrun.policies.failures.policy import FAILED_WORKERS, FAILURE_COUNT
from spotrun.policies.fallback_chain import let_go
from spotrun.policies.lifecycle.completion import COMPLETION
from spotrun.policies.lifecycle.deletion import CLOCK_DOUBT, DELETION
from spotrun.policies.lifecycle.early_stop import EARLY_STOP
from spotrun.policies.lifecycle.interruptions import INTERRUPTION_COUNT, INTERRUPTION_END
from spotrun.policies.lifecycle.kept_report import KEPT_REPORT
from spotrun.policies.lifecycle.metrics import METRICS
from spotrun.policies.lifecycle.progress import PROGRESS
from spotrun.policies.lifecycle.stages import STAGES
from spotrun.policies.lifecycle.suspension import CHECKPOINT_BEFORE_SUSPENSION, SUSPENSION
from spotrun.policies.placement.pool_choice import has_just_lost
from spotrun.policies.placement.queueing.giving_way import (
    GIVING_WAY,
    ROOM_MADE,
    precedence_limit,
)
from spotrun.policies.placement.queueing.kueue import QUEUE, queue_limit
from spotrun.policies.placement.queueing.multikueue import handed_over
from spotrun.policies.placement.supply import staying_workers
from spotrun.policies.policy import Policy, Wakes
from spotrun.policies.report.cost import COST
from spotrun.policies.report.cost_announcements import COST_ANNOUNCEMENTS
from spotrun.policies.report.deadline_condition import DEADLINE_CONDITION
from spotrun.policies.report.durability import DURABILITY
from spotrun.policies.report.interruption_price import INTERRUPTION_PRICE
from spotrun.policies.report.phase import PHASE
from spotrun.policies.report.pods_ready import PODS_READY
from spotrun.policies.report.queue_boost import QUEUE_BOOST
from spotrun.policies.report.queued_condition import QUEUED_CONDITION
from spotrun.policies.report.slow_worker import SLOW_WORKER
from spotrun.policies.report.write_failures import WRITE_FAILURES
from spotrun.policies.report.write_rate import ends_trial, refresh_seconds, seconds_to_write
from spotrun.policies.scaling.idle import IDLE_SUSPENSION, IDLENESS
from spotrun.policies.scaling.policy import SCALING
from spotrun.policies.workers.agent_version import AGENT_VERSION
from spotrun.policies.workers.capacity_condition import CAPACITY
from spotrun.policies.workers.departures import DEPARTURES, goodbye_wake_after_seconds
from spotrun.policies.workers.node_avoidance import NODE_AVOIDANCE
from spotrun.policies.workers.partial_capacity import PARTIAL_CAPACITY, capacity_limit
from spotrun.policies.workers.policy import WORKERS
from spotrun.policies.workers.settlement import SETTLEMENT
from spotrun.policies.workers.volume_check import VOLUME
from spotrun.policies.world.batch_change import BATCH_CHANGE
from spotrun.policies.world.checkpoint_requests import CHECKPOINT_REQUESTS
from spotrun.policies.world.policy import WORLD
from spotrun.state.actions import Decision
from spotrun.state.job_state import NOTHING_UNUSED, JobState
from spotrun.state.sizes import SizeLimit
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import training

_SHORTEST_SECONDS = 0.01  # a clock may be slightly behind the moment for which it was asked to wait

SIZE_LIMITS: tuple[Callable[[View], SizeLimit | None], ...] = (
    rate_limit,  # can they be paid?
    spend_size_limit,  # and by all of the namespace together?
    queue_limit,  # does the queue admit them?
    precedence_limit,  # does a job of higher priority need their room?
    capacity_limit,  # can they train?
)
"""Limits on the wanted workers; all policies see them, and each limit sees those before it."""

POLICIES: tuple[Policy, ...] = (
    PROGRESS,  # how far is it?
    METRICS,  # and how good?
    MEASUREMENTS,  # how fast is it?
    EARLY_STOP,  # is that good enough?
    STAGES,  # or good enough for the next stage?
    COMPLETION,  # is it done?
    FAILURE_COUNT,  # did it fail, and once too often?
    DEADLINE,  # is its time over?
    METER,  # what does each worker cost?
    STORAGE_COST,  # and what do its checkpoints cost?
    SAVING_PLAN,  # and how many of them are worth it?
    ENDS_OF_LOST_WORKERS,  # and which of the lost cost no more?
    SPEND_PERIODS,  # what was spent before this month, and this week?
    BUDGET,  # is that too much?
    IDLE_SUSPENSION,  # does it do nothing for too long?
    GIVING_WAY,  # does another one need its room?
    SUSPENSION,  # does anything suspend it?
    SPEND_VERDICT,  # and is it the money of its namespace?
    STEPS,  # what did the money buy?
    GOODPUT,  # and how much of it did?
    SAVE_STALLS,  # what went into saving?
    UNUSED_NODES,  # what did nodes cost besides?
    CHECKPOINT_REQUESTS,  # must its state be saved first?
    CHECKPOINT_BEFORE_SUSPENSION,  # and how long is that waited for?
    SETTLEMENT,  # which workers have ended, and are charged now?
    NODE_AVOIDANCE,  # which workers were given up, and may still run?
    NODE_REJECTIONS,  # which workers did a node reject?
    INTERRUPTION_COUNT,  # which workers did the platform take away?
    PARTIAL_CAPACITY,  # which nodes are of no use?
    DEPARTURES,  # which workers must go?
    WORKERS,  # which workers are missing?
    QUEUE,  # what must be asked of the queue, or given back?
    WORLD,  # which workers train together?
    FAILED_WORKERS,  # which workers have failed, and are still there?
    INTERRUPTION_END,  # is the lost worker replaced?
    ROOM_MADE,  # which jobs make room for it?
    CAPACITY,  # is there room for all?
    DEADLINE_CONDITION,  # will it be in time?
    ETA,  # and when is it done?
    SCALING,  # has it the right size?
    IDLENESS,  # does it do anything?
    FIXED_SIZE,  # or only one?
    BATCH_CHANGE,  # what does another size change in its batches?
    VOLUME,  # can they all save?
    DURABILITY,  # and do they?
    SLOW_WORKER,  # do all wait for one of them?
    AGENT_VERSION,  # are their versions supported?
    WRITE_FAILURES,  # can it be done?
    COST,  # what has it cost?
    INTERRUPTION_PRICE,  # and what would a loss?
    PODS_READY,  # are those there that its queue has admitted?
    QUEUE_BOOST,  # and how much later should it be preempted for that?
    PHASE,  # what should the status say about it?
    QUEUED_CONDITION,  # and since when does it wait for its turn?
    CORRECTIONS,  # was its cost shown too high or too low?
    COST_ANNOUNCEMENTS,  # and what must be announced outside its status?
    KEPT_REPORT,  # is a report to be kept?
    DELETION,  # may it go, now that it is over?
    CLOCK_DOUBT,  # do clocks agree by now?
)
"""The order also holds for actions and announcements."""


def decide(job: JobSnapshot, now: datetime, *, is_read: bool = True) -> Decision:
    """Conclude the next status and which actions follow.

    If nobody reads the status, as in a replay, all that is only for readers is left out. So are the
    passes that only keep the status fresh.
    """
    if job.is_handed_over:
        return handed_over(job, now)
    if job.deleting or job.broken is not None:
        return let_go(job, now)
    view = _limited(View(job, now))
    status = job.status
    for policy in POLICIES:
        if is_read or not policy.is_for_readers:
            status = policy.conclude(view, status)
    refresh = refresh_seconds(job) if is_read or _depends_on_looks(view) else None
    wait = _seconds_to_write(job, status, refresh)
    if wait > 0:
        status = job.status
    again = _again(view, status, refresh)
    if wait > 0:
        again = min(wait, again)
    return Decision(
        status,
        tuple(action for policy in POLICIES for action in policy.actions(view, status)),
        tuple(news for policy in POLICIES for news in policy.announce(view, status)),
        wake_after_seconds=again,
    )


def _depends_on_looks(view: View) -> bool:
    """Whether a pass may find something to do without an event and before its planned moment.

    For example, a pool may be asked again, stable workers may give way, or nodes may be useless.
    """
    job, placed = view.job, staying_workers(view).num_placed
    is_mixed = job.spec.placement.capacity is CapacityPolicy.MIXED
    return (
        job.status.unused != NOTHING_UNUSED
        or placed < view.limited_size
        or (is_mixed and bool(staying_workers(view).stable))
        or any(has_just_lost(view, pool) for pool in job.market.pools)
    )


def _limited(view: View) -> View:
    """Return the view with the limits of its size now; the same view if nothing limits it."""
    for concludes in SIZE_LIMITS:
        limit = concludes(view)
        view = view if limit is None else view.limited(limit)
    return view


def _seconds_to_write(job: JobSnapshot, new: JobState, refresh: float | None) -> float:
    """Return how long a status can wait to be written; one that nobody reads is stored at once."""
    if refresh is None or ends_trial(job, new):
        return 0.0
    return seconds_to_write(job.status, new, job.written_seconds, refresh)


def _again(view: View, status: JobState, refresh: float | None) -> float:
    """Return when time alone changes the decision next."""
    wakes, is_shown = _wakes(view, status)
    waits = [refresh if is_shown else None]
    waits += [
        policy.wake_after_seconds(view, status) for policy in POLICIES if policy.wakes in wakes
    ]
    due = (wait for wait in waits if wait is not None and wait > 0)
    return max(min(due, default=float("inf")), _SHORTEST_SECONDS)


def _wakes(view: View, status: JobState) -> tuple[Collection[Wakes], bool]:
    """Return the moments that count, and whether what status shows changes with time."""
    if status.phase not in FINISHED:
        return tuple(Wakes), bool(training(status))
    if goodbye_wake_after_seconds(view, status) is not None:
        return (Wakes.UNTIL_ALL_HAVE_LEFT, Wakes.ALWAYS), True
    return (Wakes.ALWAYS,), False
