"""Auto mode: the operator writes `workers.replicas` as an autoscaler would, and says why.

The size to write is stored in the status first, with the size that it replaces. So if an operator
dies before the write, its successor makes it, and a size that somebody else writes meanwhile is
respected.
"""

from dataclasses import replace
from datetime import timedelta

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import ScalingMode
from spotrun.policies.policy import Policy
from spotrun.policies.scaling.gather import asked_size, needed_in_seconds, sizing_facts
from spotrun.policies.scaling.size_decision import Choice, choose_size
from spotrun.state.actions import Announce, Resize
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.scaling import ScalingState
from spotrun.state.view import FINISHED, View, holds_back
from spotrun.state.world_members import training

_SOONEST_SECONDS = 60.0
"""A job that is just fast enough stays so while all train: it is checked no more often than
this."""
GROW, SHRINK, STAY = "Grow", "Shrink", "Stay"
DECISIONS = frozenset({GROW, SHRINK, STAY})
"""The names of a decision about the size in status.decisions."""


def choose_workers(view: View, status: JobState) -> JobState:
    """Conclude how many workers are justified; in mode Manual somebody else decides."""
    if not _is_auto(view.job) or status.phase in FINISHED or holds_back(status):
        return status
    if view.job.held_size is not None:  # a size written meanwhile is read afterwards
        return _remember(status, replace(status.scaling, more_since=None, fewer_since=None))
    status = _hear(view, status)
    memory = status.scaling
    if memory.replaces is not None:
        return status  # what was decided has not been written yet
    if memory.size is not None and not training(status):
        return _remember(status, replace(memory, more_since=None, fewer_since=None))
    facts = sizing_facts(view, status)
    return _conclude(view, status, choose_size(facts, memory, view.now), facts.wanted)


def resizes(view: View, status: JobState) -> tuple[Resize, ...]:
    """Write the size that was decided, unless somebody has written another one since."""
    memory = status.scaling
    if not _is_auto(view.job) or status.phase in FINISHED or view.job.held_size is not None:
        return ()
    if memory.size is None or memory.replaces != view.job.spec.workers.replicas:
        return ()
    return (Resize(memory.size, f"{memory.reason}: {_last_why(status)}"),)


def scaling_news(view: View, status: JobState) -> tuple[Announce, ...]:
    """Announce each decision about the size, also one to keep it, when the answer has changed."""
    before, now = view.job.status.scaling, status.scaling
    if now.decisions == before.decisions:
        return ()
    reason = next((one for one in ScalingReason if one.value == now.reason), None)
    return (Announce(reason, _last_why(status)),) if reason is not None else ()


def scaling_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when a size has been justified for long enough, or the deadline may need more."""
    memory, scaling = status.scaling, view.job.spec.scaling
    if memory.size is None or not _is_auto(view.job):
        return None
    after = (scaling.scale_up_after.seconds, scaling.scale_down_after.seconds)
    begun = (memory.more_since, memory.fewer_since)
    waits = (
        seconds - (view.now - since) / timedelta(seconds=1)
        for since in begun
        if since is not None
        for seconds in after  # a useless growth is taken back as quickly as it was made
    )
    needed = needed_in_seconds(view, status)
    later = (max(needed, _SOONEST_SECONDS),) if needed is not None and needed > 0 else ()
    return min((wait for wait in (*waits, *later) if wait > 0), default=None)


def _is_auto(job: JobSnapshot) -> bool:
    return job.spec.scaling_mode is ScalingMode.AUTO


def _hear(view: View, status: JobState) -> JobState:
    """Find out whether the last size is written, must still be, or somebody wrote another one."""
    memory, job = status.scaling, view.job
    if memory.size is None or memory.replaces == job.spec.workers.replicas:
        return status
    size = asked_size(job)
    if size == memory.size:
        return _remember(status, replace(memory, replaces=None))
    reason, before = ScalingReason.REPLICAS_SET, memory.size
    memory = replace(memory, size=size, replaces=None, more_since=None, fewer_since=None)
    why = f"{size} instead of {before} workers: {reason.purpose}"
    numbers = {"reason": reason.value, "replicas": str(job.spec.workers.replicas)}
    status = record(view, status, _what(before, size), why, numbers)
    return _remember(status, _counted(memory, reason))


def _conclude(view: View, status: JobState, choice: Choice, before: int) -> JobState:
    """Remember the choice; if it differs from the last answer, record it as a decision."""
    memory, is_other = choice.memory, choice.size != before
    if is_other:
        memory = replace(memory, replaces=view.job.spec.workers.replicas)
    reason, last = choice.reason, status.scaling
    is_news = choice.memory.reason != last.reason
    if isinstance(reason, ScalingReason) and (is_other or is_news):
        memory = _counted(memory, reason)
        change = f"{before} -> {choice.size}" if is_other else f"{before}"
        numbers = {"reason": reason.value, **choice.numbers}
        why = f"{change} workers: {choice.why}"
        status = record(view, status, _what(before, choice.size), why, numbers)
    return _remember(status, memory)


def _what(before: int, after: int) -> str:
    if after == before:
        return STAY
    return GROW if after > before else SHRINK


def _counted(memory: ScalingState, reason: ScalingReason) -> ScalingState:
    counts = dict(memory.decisions)
    counts[reason.value] = counts.get(reason.value, 0) + 1
    return replace(memory, reason=reason.value, decisions=counts)


def _remember(status: JobState, memory: ScalingState) -> JobState:
    return status if memory == status.scaling else replace(status, scaling=memory)


def _last_why(status: JobState) -> str:
    made = (one.why for one in reversed(status.decisions) if one.what in DECISIONS)
    return next(made, "")


SCALING = Policy(
    choose_workers,
    wake_after_seconds=scaling_wake_after_seconds,
    actions=resizes,
    announce=scaling_news,
)
