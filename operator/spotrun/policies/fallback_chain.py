"""The reduced decision for a job that is being deleted, or about which a policy fails to decide.

Such a job is charged, suspended, stopped at its budget, and its pods are released. This uses only
its ledger and what is known of its pods: no template, no market, no other policy. Each step is
independent: if one fails, it is left out, and the job's status says so.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS, MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.budget.policy import budget_news, budget_wake_after_seconds, keep_limit
from spotrun.policies.cost.corrections import correction_news, note_ends
from spotrun.policies.cost.meter import meter
from spotrun.policies.lifecycle.completion import complete
from spotrun.policies.lifecycle.deletion import deletion_wake_after_seconds, deletions
from spotrun.policies.lifecycle.progress import follow
from spotrun.policies.lifecycle.suspension import (
    checkpoint_wake_after_seconds,
    schedule_wake_after_seconds,
    suspend,
    what_holds,
)
from spotrun.policies.policy import Conclude
from spotrun.policies.report.cost import show_cost
from spotrun.policies.report.cost_announcements import annotations, final_cost
from spotrun.policies.report.phase import workers_shown
from spotrun.policies.report.write_failures import check_writes, why_undone
from spotrun.policies.report.write_rate import refresh_seconds, seconds_to_write
from spotrun.policies.workers.departures import departures, goodbye_wake_after_seconds
from spotrun.policies.workers.settlement import has_ended, releases, settle, settle_ended
from spotrun.policies.world.checkpoint_requests import order_checkpoint
from spotrun.state.actions import Action, Announce, Decision, Release, Remove
from spotrun.state.conditions import find, state
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Broken, JobSnapshot, Worker
from spotrun.state.stored.workers import WorkerCounts
from spotrun.state.view import FINISHED, View, holds_back

_LATEST_SECONDS = 60.0
"""After this long at the latest the operator checks the job again: its cost, and whether a decision
is possible by now."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Step(Protocol[T_co]):
    __name__: str

    def __call__(self, view: View, status: JobState, /) -> Iterable[T_co]:
        """Conclude something from what is known and the next status."""


def undecided(job: JobSnapshot, error: Exception) -> JobSnapshot:
    """Return the job with the error of a policy or of an observation: a bug in the operator."""
    return replace(job, broken=job.broken or _mistake([_words(error)]))


def let_go(job: JobSnapshot, now: datetime) -> Decision:
    """Conclude what is charged, which workers are removed, and which pods are released."""
    view = View(job, now)
    if not job.has_ledger:
        return _without_ledger(view)
    if job.deleting:
        return _deleted(view)
    failed: list[str] = []
    status = _follow_steps(view, _OF_BROKEN, failed)
    actions = _collect(view, status, _ACTIONS, failed)
    status = _say(view, status, job.broken, failed)
    wait = seconds_to_write(job.status, status, job.written_seconds, refresh_seconds(job))
    if wait > 0:
        status = job.status
        actions = _collect(view, status, _ACTIONS, failed)
    news = _collect(view, status, _NEWS, failed)
    again = min(_wake_after_seconds(view, status), wait if wait > 0 else _LATEST_SECONDS)
    return Decision(status, tuple(actions), tuple(news), wake_after_seconds=again)


def _deleted(view: View) -> Decision:
    """Release the pods' finalizers of a deleted job; the rest is garbage collected."""
    before, status = view.job.status, _follow_steps(view, _OF_DELETED, [])
    # A changed price alone no longer justifies a write.
    if (status.settled, _why(status)) == (before.settled, _why(before)):
        status = before
    return Decision(status, tuple(_releases_at_last(view, status)))


def _why(status: JobState) -> str:
    """Return why the deletion takes so long, if this is known."""
    stated = find(status, ConditionType.WRITTEN)
    return stated.message if stated is not None else ""


def _without_ledger(view: View) -> Decision:
    """Conclude what can be concluded from pods alone.

    The cost of a suspended job's workers is added once the ledger can be read: until then their
    pods are kept.
    """
    job, broken = view.job, view.job.broken
    assert broken is not None, "it says why"
    blind = View(replace(job, status=JobState()), view.now)
    if job.deleting:
        return Decision(job.status, tuple(_releases_at_last(blind, blind.job.status)))
    why = Reason.SUSPENDED_BY_USER
    actions = tuple(
        Remove(worker.worker_id, worker.pod.uid, why, why.purpose)
        for worker in (job.workers if job.spec.suspend else ())
        if not worker.pod.deleting and not worker.pod.is_over
    )
    status = job.status
    if broken.may_be_said:
        phase = status.phase or Phase.PENDING
        reason, message = broken.reason.value, broken.message
        status = replace(status, phase=phase, reason=reason, message=message)
        status = state(view, status, broken.kind, broken.reason, broken.message, holds=False)
    return Decision(status, actions, wake_after_seconds=_LATEST_SECONDS)


def _releases_at_last(view: View, status: JobState) -> Iterator[Release]:
    """Release also the pods whose cost could not be added.

    The deletion of a job does not wait until an error, of the operator or of a user, is fixed.
    """
    settled = status.settled
    for worker in view.job.workers:
        if worker.pod.metered and (worker.worker_id in settled or _is_over(view, worker)):
            yield Release(worker.worker_id, worker.pod.uid)


def _is_over(view: View, worker: Worker) -> bool:
    try:
        return has_ended(view, worker)
    except Exception:
        return worker.pod.is_over


def _follow_steps(view: View, steps: Iterable[Conclude], failed: list[str]) -> JobState:
    """Run each step, and note those that fail."""
    status = view.job.status
    for step in steps:
        try:
            status = step(view, status)
        except Exception as error:
            failed.append(f"{step.__name__} failed: {_words(error)}")
    return status


def _collect(view: View, status: JobState, steps: Iterable[_Step[T]], failed: list[str]) -> list[T]:
    """Collect the results of each step, and note the steps that fail."""
    found: list[T] = []
    for step in steps:
        try:
            found += step(view, status)
        except Exception as error:
            failed.append(f"{step.__name__} failed: {_words(error)}")
    return found


def _departures(view: View, status: JobState) -> Iterable[Action]:
    """Remove all workers of a suspended job; otherwise it is unknown which ones are needed."""
    return departures(view, status) if holds_back(status) else ()


def _order_last_checkpoint(view: View, status: JobState) -> JobState:
    return order_checkpoint(view, status) if status.suspended_by else status


def _waits(view: View, status: JobState) -> Iterable[float | None]:
    yield schedule_wake_after_seconds(view, status)
    yield checkpoint_wake_after_seconds(view, status)
    yield goodbye_wake_after_seconds(view, status)
    yield deletion_wake_after_seconds(view, status)
    if status.phase not in FINISHED:
        yield budget_wake_after_seconds(view, status)


def _wake_after_seconds(view: View, status: JobState) -> float:
    """Return when time alone changes the necessary actions."""
    waits = _collect(view, status, (_waits,), [])
    return min((wait for wait in waits if wait is not None and wait > 0), default=_LATEST_SECONDS)


_OF_BROKEN: tuple[Conclude, ...] = (
    follow,  # what is saved?
    complete,  # is it done?
    meter,  # what does each worker cost?
    note_ends,  # and which of the lost cost no more?
    keep_limit,  # is that too much?
    suspend,  # does anything suspend it?
    _order_last_checkpoint,  # its state is saved first
    settle_ended,  # which workers have ended, and are charged now?
    settle,  # which were never created, and are no longer wanted?
    check_writes,  # can it be done?
    show_cost,  # what has it cost?
)
_OF_DELETED: tuple[Conclude, ...] = (
    meter,
    note_ends,
    settle_ended,
    settle,
    check_writes,
    show_cost,
)
_ACTIONS: tuple[_Step[Action], ...] = (releases, _departures, annotations, deletions)
_NEWS: tuple[_Step[Announce], ...] = (budget_news, correction_news, final_cost)


def _say(view: View, status: JobState, broken: Broken | None, failed: list[str]) -> JobState:
    """State what is wrong, what suspends the job, and which workers are still there."""
    held = _collect(view, status, (_holders,), failed)
    workers = _collect(view, status, (_workers,), failed)
    broken = broken or _mistake(failed)
    status = state(view, status, broken.kind, broken.reason, broken.message, holds=False)
    if failed:
        words = _mistake(failed).message
        status = state(view, status, ConditionType.DECIDED, Reason.UNDECIDED, words, holds=False)
    if workers:
        status = replace(status, workers=workers[0])
    if status.phase not in FINISHED:
        words = "; ".join(filter(None, (broken.message, *held, why_undone(view.job))))
        phase, reason, message = _phase(status), broken.reason.value, words[:MAX_MESSAGE_CHARS]
        status = replace(status, phase=phase, reason=reason, message=message)
    reason, message = status.reason or broken.reason.value, status.message or broken.message
    runs = status.phase is Phase.RUNNING
    return state(view, status, ConditionType.RUNNING, reason, message, holds=runs)


def _holders(view: View, status: JobState) -> Iterable[str]:
    return (what_holds(view, status),) if status.suspended_by else ()


def _workers(view: View, status: JobState) -> Iterable[WorkerCounts]:
    return (workers_shown(view, status),)


def _phase(status: JobState) -> Phase:
    if status.suspended_by:
        return Phase.SUSPENDED
    before = status.phase or Phase.PENDING
    return Phase.PENDING if before is Phase.SUSPENDED else before


def _mistake(words: list[str]) -> Broken:
    said = "the operator failed to decide about this job and tries again"
    return Broken(": ".join((said, *words)), ConditionType.DECIDED, Reason.UNDECIDED)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_DETAIL_CHARS]
