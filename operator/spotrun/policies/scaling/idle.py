"""Idleness: workers that are paid for but do almost nothing, though a world trains.

A process that waits for ever, a script that reads one file for an hour, a GPU without any work:
none of these is a failure, and all cost money. The operator reports it and leaves the decision to
people, because a job may wait on purpose. If `idle.suspendAfter` is set, the job is suspended after
that time, until somebody has checked it.
"""

from dataclasses import replace
from datetime import timedelta

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason, SuspendedBy
from spotrun.api.spec.limits import Idle, IdleDuration
from spotrun.api.spec.workers import TargetResource
from spotrun.policies.policy import Policy
from spotrun.policies.scaling.utilization.gauges import used_by_pod, used_share
from spotrun.state.conditions import find, holds_since, state
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Agent, JobSnapshot, Worker
from spotrun.state.view import FINISHED, View, holds_back
from spotrun.state.world_members import has_arrived, training, world_members, world_number
from spotrun.wire import Utilization

IDLE_SECONDS = float(IdleDuration.least_seconds)
IDLE_SHARE = 0.05
"""A share of the GPUs, or, if a worker has none, of the CPU that it requests: a process that only
polls uses about this much."""
_MANY_STEPS = 5.0
_ADVICE = ": look at a worker's log, or set spec.suspend to true to pay no longer"
_RESUME = "to continue, set spec.suspend to true, and then to false"
_MINUTES = f"{IDLE_SECONDS / 60:.0f}"


def watch_idleness(view: View, status: JobState) -> JobState:
    """State when all workers have used almost nothing, or made no progress, for long.

    While this has not lasted long enough, the condition is Unknown, and its transition time says
    since when.
    """
    kind, stated = ConditionType.IDLE, find(status, ConditionType.IDLE)
    if _is_held(status) or _is_unheard(view, status):
        return status  # the result stays until a person has acted, or all report
    members = _arrived_members(view, status)
    is_stuck = bool(members) and all(_is_stuck(worker.agent) for worker in members)
    used = [_used(view.job, worker) for worker in members]
    if not is_stuck and not (used and all(s is not None and s < IDLE_SHARE for s in used)):
        if stated is None or stated.status is ConditionStatus.FALSE:
            return status
        message = "the workers are at work" if members else "no worker trains"
        return state(view, status, kind, Reason.TRAINING, message, holds=False)
    begun = stated is not None and stated.status is not ConditionStatus.FALSE
    if not begun and not is_stuck:
        message = f"the workers use almost nothing; after {_MINUTES} min the job counts as idle"
        return state(view, status, kind, Reason.NOTHING_USED, message, holds=None)
    is_said = stated is not None and stated.status is ConditionStatus.TRUE
    if is_said or (not is_stuck and (idle_wake_after_seconds(view, status) or 0.0) > 0):
        return status
    words = _words(members, is_stuck=is_stuck)
    return state(view, status, kind, Reason.NOTHING_USED, words, holds=True)


def hold_idle(view: View, status: JobState) -> JobState:
    """Suspend the job once it was idle for as long as its spec allows.

    It continues when somebody has set `suspend` to true and to false again, because only a person
    can tell whether it would work then; or when `idle` is removed from the spec.
    """
    if status.phase in FINISHED:
        return status
    idle, is_held = view.job.spec.idle, _is_held(status)
    if is_held and (idle is None or view.job.spec.suspend):
        by = tuple(who for who in status.suspended_by or () if who is not SuspendedBy.IDLE)
        return replace(status, suspended_by=by or None)
    if idle is None or is_held or view.job.spec.suspend or holds_back(status):
        return status
    # The stored condition may be outdated: perhaps no pass has taken place meanwhile.
    is_due = _seconds_to_hold(view, watch_idleness(view, status), idle) == 0.0
    if not is_due or not view.is_time_sure or _is_unheard(view, status):
        return status
    said = find(status, ConditionType.IDLE)
    assert said is not None, "it holds"
    found, _, _ = said.message.partition(_ADVICE)
    message = f"{found}; that has lasted for {idle.suspend_after}: {_RESUME}"
    status = state(view, status, ConditionType.IDLE, Reason.NOTHING_USED, message, holds=True)
    return replace(status, suspended_by=(SuspendedBy.IDLE,))


def idle_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when idleness has lasted long enough to be reported, or to suspend the job."""
    stated, idle = find(status, ConditionType.IDLE), view.job.spec.idle
    if stated is None or _is_held(status) or _is_unheard(view, status):
        return None
    if stated.status is not ConditionStatus.UNKNOWN:
        return None if idle is None else _seconds_to_hold(view, status, idle)
    since = stated.last_transition_time
    return max(IDLE_SECONDS - (view.now - since) / timedelta(seconds=1), 0.0)


def _is_held(status: JobState) -> bool:
    return SuspendedBy.IDLE in (status.suspended_by or ())


def _seconds_to_hold(view: View, status: JobState, idle: Idle) -> float | None:
    """Return how much longer it may be idle; None: it is not. The report came after some time."""
    since = holds_since(status, ConditionType.IDLE)
    if since is None:
        return None
    passed_seconds = (view.now - since) / timedelta(seconds=1)
    return max(idle.suspend_after.seconds - IDLE_SECONDS - passed_seconds, 0.0)


def _is_unheard(view: View, status: JobState) -> bool:
    """Whether some members have reported nothing yet, for example to an operator that just started.

    This says nothing about idleness: the earlier result stays, and no job is suspended for it.
    """
    return any(worker.agent is None for worker in world_members(view, status))


def _arrived_members(view: View, status: JobState) -> list[Worker]:
    """Return the workers that train, if all of them are there and report it."""
    members, present = world_members(view, status), world_number(status)
    is_whole = len(members) == len(training(status))
    return members if is_whole and all(has_arrived(worker, present) for worker in members) else []


def _used(job: JobSnapshot, worker: Worker) -> float | None:
    """Return what a worker uses; None if unknown: the use of a whole machine does not show it."""
    reported = worker.agent.report.utilization if worker.agent is not None else Utilization()
    if job.requests.devices:
        return used_share(TargetResource.GPU, job, worker, reported)
    if worker.used is not None:
        return used_by_pod(TargetResource.CPU, worker.used)
    if not worker.pod.requests.cpu:
        return None
    return used_share(TargetResource.CPU, job, worker, reported)


def _is_stuck(agent: Agent | None) -> bool:
    """Whether its progress has not changed for far longer than a step takes."""
    if agent is None or agent.progress_seconds is None or agent.report.progress is None:
        return False
    step_seconds = agent.report.progress.step_seconds or 0.0
    return agent.progress_seconds >= max(IDLE_SECONDS, _MANY_STEPS * step_seconds)


def _words(members: list[Worker], *, is_stuck: bool) -> str:
    if not is_stuck:
        return (
            f"for {_MINUTES} min {len(members)} workers have used less than {IDLE_SHARE:.0%} of "
            f"their GPUs, or of the CPU they request{_ADVICE}"
        )
    reported = (worker.agent.report.progress for worker in members if worker.agent is not None)
    step = max((one.step for one in reported if one is not None), default=0)
    return f"for {_MINUTES} min no worker has made a step beyond step {step}{_ADVICE}"


IDLE_SUSPENSION = Policy(hold_idle)
IDLENESS = Policy(watch_idleness, wake_after_seconds=idle_wake_after_seconds)
