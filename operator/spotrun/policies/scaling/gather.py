"""The plain numbers for a choice of size, gathered from a job's snapshot and status."""

from collections.abc import Iterable, Sequence
from statistics import median

from spotrun.api.capacitypool import Capacity
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, ScalingReason
from spotrun.policies.budget.limits import size_within
from spotrun.policies.cost.bill import Bill, bill
from spotrun.policies.deadline.course import changeovers, course, full_step_seconds, usable_seconds
from spotrun.policies.deadline.pacing import MARGIN_SECONDS, saved
from spotrun.policies.deadline.policy import finishes_by
from spotrun.policies.placement.supply import patience_seconds, waits_seconds
from spotrun.policies.pool.interruption_rate import interruptions_per_hour
from spotrun.policies.scaling.facts import Cap, SizingFacts, StepTimes
from spotrun.policies.scaling.utilization.gauges import gauges, readings
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.sizes import allowed, wanted
from spotrun.state.snapshot import JobSnapshot, Worker
from spotrun.state.view import View
from spotrun.state.world_members import all_in_process, training, world_members, world_number

IN_PROCESS_STALL_SECONDS = 5.0
"""An upper bound: in measurements, a change of a world in process stops the others for under 1
s."""
RESTART_STALL_SECONDS = 60.0
"""Processes start again, build their model and read a checkpoint."""
_ON_NODES_SECONDS = 60.0
"""The time until a joining worker trains, if nodes exist and have the image."""
_LEAST_SECONDS = 1e-6


def sizing_facts(view: View, status: JobState) -> SizingFacts:
    """Gather all known facts."""
    job, scaling = view.job, view.job.spec.scaling
    members, now = world_members(view, status), bill(view, status)
    is_whole = len(members) == len(training(status))
    step = step_times(members, world_number(status)) if is_whole else None
    worth = scaling.hour_worth_usd
    return SizingFacts(
        sizes=tuple(allowed(job.effective_workers)),
        wanted=asked_size(job),
        running=len(training(status)),
        gauges=gauges(job, members),
        step=step,
        microbatches=_microbatches(job, members),
        processes=_processes(job),
        usd_per_hour=_usd_per_hour(now),
        hour_worth_usd=None if worth is None else float(worth.decimal),
        min_efficiency=float(scaling.min_efficiency.decimal),
        up_after_seconds=scaling.scale_up_after.seconds,
        down_after_seconds=scaling.scale_down_after.seconds,
        remaining_samples=_remaining_samples(status, step),
        deadline_seconds=_deadline_seconds(view),
        needed_samples_per_second=_needed(view, status, step),
        stall_seconds=_stall_seconds(members),
        changeover_seconds=_changeover_seconds(view, status),
        life_seconds=_life_seconds(view, members),
        caps=tuple(_caps(view, status, now)),
        free=_free(view),
        accelerator=_accelerator(view, members),
        is_mute=job.is_mute,
        use_unknown=job.use_unknown,
        has_checkpoints=job.spec.checkpoint is not None,
    )


def asked_size(job: JobSnapshot) -> int:
    """The size that `replicas` stands for, whatever limits it at present."""
    return wanted(job.effective_workers)


def step_times(members: Sequence[Worker], present: int) -> StepTimes | None:
    """Return a step of the present world; None until it was measured for long enough.

    One slow node makes all others wait. This says nothing about the size, so the time that its
    worker computes longer than the others is subtracted.
    """
    reported = readings(members)
    if any(one.world_number != present or not one.is_enough for one in reported):
        return None  # the other workers will soon have reported as much
    steps = [one.step_seconds for one in reported if one.step_seconds]
    samples = [one.samples_per_step for one in reported if one.samples_per_step]
    if not steps or not samples or median(steps) < _LEAST_SECONDS:
        return None
    seconds, batch = median(steps), median(samples)
    busy = [one.compute * seconds for one in reported if one.compute is not None]
    if len(busy) < len(reported):
        return StepTimes(len(members), seconds, batch)
    seconds = max(seconds - (max(busy) - median(busy)), median(busy), _LEAST_SECONDS)
    compute = min(median(busy) / seconds, 1.0)
    data = min(median(one.data or 0.0 for one in reported), 1.0 - compute)
    return StepTimes(len(members), seconds, batch, compute, data, 1.0 - compute - data)


def _microbatches(job: JobSnapshot, members: Iterable[Worker]) -> int | None:
    """Return the microbatches of a step; workers that share a copy of the model share them."""
    reports = (worker.agent.report for worker in members if worker.agent is not None)
    reported = [r.progress.microbatches for r in reports if r.progress and r.progress.microbatches]
    return max(reported) * job.spec.workers.per_replica if reported else None


def _processes(job: JobSnapshot) -> int:
    return 1 if job.spec.workers.per_replica > 1 else job.processes


def _usd_per_hour(now: Bill) -> float | None:
    priced = len(now.running) - len(now.unpriced)
    return float(now.usd_per_hour.exact) / priced if priced else None


def _remaining_samples(status: JobState, step: StepTimes | None) -> float | None:
    progress = status.progress
    if step is None or not progress.total_steps:
        return None
    return max(progress.total_steps - (progress.step or 0), 0) * step.samples


def _deadline_seconds(view: View) -> float | None:
    deadline = finishes_by(view)
    if deadline is None:
        return None
    return usable_seconds(view.job.spec.schedule, view.now, deadline)


def _needed(view: View, status: JobState, step: StepTimes | None) -> float | None:
    """Return the throughput at which the deadline is met, if all work were saved now."""
    way, step_seconds = course(view, status), full_step_seconds(view, status)
    if way is None or step is None or not step_seconds:
        return None
    steps = saved(way).remaining_seconds / step_seconds
    left = way.left_seconds - way.ahead_seconds - MARGIN_SECONDS
    return steps * step.samples / max(left, MARGIN_SECONDS)


def needed_in_seconds(view: View, status: JobState) -> float | None:
    """Return when the deadline needs more throughput than the present size has, if no step is made.

    0 or less: it does already.
    """
    way, step_seconds, pace = course(view, status), full_step_seconds(view, status), status.pace
    if way is None or not step_seconds or pace.step_seconds is None:
        return None
    steps = saved(way).remaining_seconds / step_seconds
    left = way.left_seconds - way.ahead_seconds - MARGIN_SECONDS
    return left - steps * float(pace.step_seconds)


def _stall_seconds(members: Sequence[Worker]) -> float:
    return IN_PROCESS_STALL_SECONDS if all_in_process(members) else RESTART_STALL_SECONDS


def _changeover_seconds(view: View, status: JobState) -> float:
    if not status.pace.changeovers and not view.job.market.pools:
        return _ON_NODES_SECONDS
    return changeovers(status.pace)[0]


def _life_seconds(view: View, members: Iterable[Worker]) -> float | None:
    """Return how long an added worker is expected to stay; None: as long as the job."""
    market = view.job.market
    on_spot = {w.node.pool for w in members if w.node and w.node.capacity is Capacity.SPOT}
    pools = (pool for name in on_spot if (pool := market.pool(name)) is not None)
    rates = [interruptions_per_hour(pool, market.pools) for pool in pools]
    return 3600 / max(rates) if rates and max(rates) > 0 else None


def _caps(view: View, status: JobState, now: Bill) -> Iterable[Cap]:
    budget = view.job.spec.budget
    if budget is not None and budget.max_usd_per_hour is not None:
        yield Cap(size_within(view, status, budget, now), ScalingReason.BUDGET_LIMIT)
    if _is_lacking(view, status):
        placed = sum(worker.node is not None for worker in view.staying)
        yield Cap(placed, ScalingReason.NO_CAPACITY)


def _is_lacking(view: View, status: JobState) -> bool:
    """Whether more workers were requested without success, for longer than creating nodes takes."""
    pools, stated = view.job.market.pools, find(status, ConditionType.CAPACITY_AVAILABLE)
    if pools and all(pool.retry_at is not None and pool.retry_at > view.now for pool in pools):
        return True
    if stated is None or stated.status is not ConditionStatus.FALSE:
        return False
    waiting = [worker for worker in view.staying if worker.node is None]
    late = (w for w in waiting if waits_seconds(view, w) >= patience_seconds(view, w))
    return not pools or any(late)


def _free(view: View) -> int | None:
    """Return how many more workers the market may have; None if nodes may be created for them."""
    pools = [one for one in view.job.market.pools if not one.retry_at or one.retry_at <= view.now]
    if any(pool.declared or pool.provision_seconds is not None for pool in pools):
        return None
    return sum(pool.free_slots for pool in pools) if view.job.market.pools else None


def _accelerator(view: View, members: Iterable[Worker]) -> str:
    """Return the GPU model; a mix counts as its own model, because the slowest is not known."""
    pools = (view.job.market.pool(w.node.pool) for w in members if w.node is not None)
    return "+".join(sorted({pool.accelerator for pool in pools if pool and pool.accelerator}))
