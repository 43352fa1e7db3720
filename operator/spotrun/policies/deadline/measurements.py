"""Measurements of a job's pace: how long a step takes, and how long until new workers train."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median

from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.training import Pace
from spotrun.state.view import View
from spotrun.state.world_members import reported_progress, training, world_members, world_number

_KEPT = 10
_NEWS = 0.05
"""A change of the step time by less than this part is no reason to write."""


def measure_pace(view: View, status: JobState) -> JobState:
    """Store the step time that workers report, and the changeover time of new workers."""
    new = _with_steps(view, status, status.pace)
    if view.job.spec.deadline is not None or view.job.market.pools:  # otherwise it is not used
        new = _with_changeovers(view, status, new)
    return status if new is status.pace else replace(status, pace=new)


def launched_at(view: View, worker: Worker) -> datetime | None:
    """Return when a worker began to cost: with its node, or with its place on an existing one.

    A node joins the cluster only some time after its launch, and that time is paid as well.
    """
    made, node = worker.pod.created_at, worker.node
    if made is None or node is None or node.created_at is None or node.created_at <= made:
        return worker.pod.scheduled_at or made
    pool = view.job.market.pool(node.pool)
    provision_seconds = pool.provision_seconds if pool is not None else None
    return max(made, node.created_at - timedelta(seconds=provision_seconds or 0.0))


def _with_steps(view: View, status: JobState, old: Pace) -> Pace:
    present, size = world_number(status), len(training(status))
    reported = (one for one in reported_progress(view, status) if one.world_number == present)
    known = [one.step_seconds for one in reported if one.step_seconds]
    if not known:
        return old
    seconds = median(known)
    before = float(old.step_seconds) if old.step_seconds is not None else None
    if before and old.workers == size and abs(seconds - before) <= _NEWS * before:
        return old
    return replace(old, step_seconds=Decimal(f"{seconds:.6f}"), workers=size)


def _with_changeovers(view: View, status: JobState, old: Pace) -> Pace:
    """Measure each worker once, when it first trains: its wait for other workers does not count.

    Of several workers that came together, the slowest counts, because the world began with it.
    """
    last = -1 if old.measured is None else old.measured
    new = [worker for worker in world_members(view, status) if worker.worker_id > last]
    took = [seconds for worker in new if (seconds := _took_seconds(view, status, worker))]
    if not took:
        return old
    kept = (*old.changeovers, round(max(took)))[-_KEPT:]
    return replace(old, changeovers=kept, measured=max(worker.worker_id for worker in new))


def _took_seconds(view: View, status: JobState, worker: Worker) -> float | None:
    """Return a worker's time from launch to readiness, plus from the order to begin to training."""
    agent, world, launched = worker.agent, status.world, launched_at(view, worker)
    if agent is None or agent.ready_seconds is None or launched is None:
        return None
    if agent.arrived_seconds is None or agent.report.arrived != world.number:
        return None
    formed_at = world.formed_at or view.now
    until_ready = (view.now - launched) / timedelta(seconds=1) - agent.ready_seconds
    since_formed = (view.now - formed_at) / timedelta(seconds=1) - agent.arrived_seconds
    return max(until_ready, 0.0) + max(since_formed, 0.0)


MEASUREMENTS = Policy(measure_pace)
