"""The course of the trials: the state of each follows from its TrainingJob.

A trial ends here only once its job's workers are settled: its cost is final then, and stays in the
status even if the job is deleted.
"""

import math
from dataclasses import replace
from datetime import datetime

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.names import Phase, Reason, SuspendedBy
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.money.units import NO_USD, Usd
from spotrun.policies.tuning.snapshot import Child, TuningSnapshot
from spotrun.policies.tuning.state import Trial, TuningState
from spotrun.search.trial import Report
from spotrun.state.view import FINISHED

_HELD = {
    SuspendedBy.SPEND_LIMIT: TuningReason.SPEND_LIMITED,
    SuspendedBy.QUEUE: TuningReason.QUEUED,
    SuspendedBy.PREEMPTION: TuningReason.GIVES_WAY,
    SuspendedBy.SCHEDULE: TuningReason.OUTSIDE_SCHEDULE,
    SuspendedBy.IDLE: TuningReason.IDLE,
}
"""Why a trial waits whose job is suspended by something other than its user or its budget."""
WAITS = frozenset({TuningReason.QUOTA_EXCEEDED, *_HELD.values()})


def follow(search: TuningSnapshot, status: TuningState, now: datetime) -> TuningState:
    """Update each trial that has not ended."""
    trials = (
        _ended_before(search, one) if one.has_ended else _followed(search, one, now)
        for one in status.trials
    )
    return replace(status, trials=tuple(trials))


def courses(status: TuningState) -> dict[int, tuple[Report, ...]]:
    """Return the reports of the trials that run, for the next pass: not every status is written."""
    return {one.number: one.course for one in status.trials if one.phase is TrialPhase.RUNNING}


def stopping(trial: Trial, outcome: TrialPhase, reason: TuningReason, why: str) -> Trial:
    """Begin to stop a trial; its outcome is noted before its workers are removed."""
    message = why[:MAX_DETAIL_CHARS]
    phase = TrialPhase.STOPPING
    return replace(trial, phase=phase, outcome=outcome, reason=reason, message=message)


def ended(
    trial: Trial, phase: TrialPhase, reason: TuningReason | None, why: str | None, now: datetime
) -> Trial:
    """End a trial, whose cost is final."""
    message = why[:MAX_DETAIL_CHARS] if why else None
    return replace(trial, phase=phase, outcome=None, reason=reason, message=message, ended_at=now)


def is_settled(child: Child) -> bool:
    """Whether a job has no workers that still cost something, and will have none."""
    state = child.state
    is_held = child.is_suspended and child.is_current and state.phase is Phase.SUSPENDED
    is_over = is_held or state.phase in FINISHED
    return is_over and state.settled.size >= (state.next_worker_id or 0)


def _ended_before(search: TuningSnapshot, trial: Trial) -> Trial:
    """Count the cost of a trial that somebody resumed after its end; it is suspended again."""
    child = search.children.get(trial.number)
    if child is None or (cost := _cost(trial, child)) <= trial.usd:
        return trial
    return replace(trial, usd=cost)


def _followed(search: TuningSnapshot, trial: Trial, now: datetime) -> Trial:
    child = search.children.get(trial.number)
    if child is None:
        return _without_job(search, trial, now)
    trial = _with_news(search, trial, child)
    if is_settled(child) and (done := _settled(search, trial, child, now)) is not None:
        return done
    if trial.phase is TrialPhase.STOPPING:
        return trial
    if child.state.phase is Phase.SUCCEEDED:
        return _completing(search, trial)
    return _running(search, trial, child)


def _running(search: TuningSnapshot, trial: Trial, child: Child) -> Trial:
    if trial.value is not None and not math.isfinite(trial.value):
        why = f"{search.spec.objective.metric} was {trial.value} at step {trial.step}"
        return stopping(trial, TrialPhase.FAILED, TuningReason.NOT_A_NUMBER, why)
    if SuspendedBy.BUDGET in (child.state.suspended_by or ()):
        why = child.state.message or "its budget is used up"
        return stopping(trial, TrialPhase.STOPPED, TuningReason.BUDGET_EXCEEDED, why)
    if trial.reason in WAITS:  # it had no room before
        trial = replace(trial, message=None)
    reason = _held(search, trial, child)
    if reason in WAITS:
        trial = replace(trial, message=(child.state.message or reason.purpose)[:MAX_DETAIL_CHARS])
    return replace(trial, phase=TrialPhase.RUNNING, reason=reason)


def _held(search: TuningSnapshot, trial: Trial, child: Child) -> TuningReason | None:
    """Return why the trial waits: with the suspended search, or for a limit it shares with jobs.

    The search resumes what it has suspended, and a limit or a queue releases what it holds.
    """
    if search.spec.suspend or (
        trial.reason is TuningReason.SUSPENDED_BY_USER and child.is_suspended
    ):
        return TuningReason.SUSPENDED_BY_USER
    causes = child.state.suspended_by or ()
    return next((reason for cause, reason in _HELD.items() if cause in causes), None)


def _pending(search: TuningSnapshot, trial: Trial, now: datetime) -> Trial:
    number = trial.number
    if (words := search.refused.get(number)) is not None:
        return ended(trial, TrialPhase.FAILED, TuningReason.TRIAL_REFUSED, words, now)
    if number in search.taken:
        name = search.job_name(number)
        why = f"trainingjob {name} belongs to somebody else: delete it, or rename one of them"
        return ended(trial, TrialPhase.FAILED, TuningReason.NAME_TAKEN, why, now)
    if (words := search.over_quota.get(number)) is not None:  # the operator asks again
        return replace(trial, reason=TuningReason.QUOTA_EXCEEDED, message=words)
    return trial


def _without_job(search: TuningSnapshot, trial: Trial, now: datetime) -> Trial:
    if trial.phase is TrialPhase.PENDING:
        return _pending(search, trial, now)
    number, name = trial.number, search.job_name(trial.number)
    if number not in search.gone:
        return trial
    if trial.outcome is not None:
        return ended(trial, trial.outcome, trial.reason, trial.message, now)
    why = f"trainingjob {name} was deleted before its end; its cost until then is kept"
    return ended(trial, TrialPhase.FAILED, TuningReason.TRIAL_DELETED, why, now)


def _with_news(search: TuningSnapshot, trial: Trial, child: Child) -> Trial:
    state = child.state
    trial = replace(trial, usd=_cost(trial, child))
    if state.checkpoint is not None:
        place = f"{search.namespace}/{child.folder}/{state.checkpoint.name}"
        trial = replace(trial, checkpoint=place)
    told = child.metrics.get(search.spec.objective.metric)
    newest = (Report(*told),) if told is not None else ()
    for one in (*search.unwritten.get(trial.number, ()), *newest):
        if trial.step is None or one.step > trial.step:  # a repeated step counts once
            trial = replace(trial, step=one.step, value=one.value, course=(*trial.course, one))
    return trial


def _cost(trial: Trial, child: Child) -> Usd:
    """Return what is known of a trial's cost: exact once all workers are settled.

    It includes its checkpoints in an object store, because the job's budget pays for them as well.
    """
    sums, shown = child.state.accumulators, child.state.cost.usd
    storage = sums.storage.usd.total if sums.storage is not None else NO_USD
    exact = (sums.usd or NO_USD) + storage
    if is_settled(child):
        return exact
    return max(trial.usd, (shown or NO_USD) + storage, exact)


def _settled(search: TuningSnapshot, trial: Trial, child: Child, now: datetime) -> Trial | None:
    """Return the end of a trial whose job costs nothing more; None: the job may continue."""
    state = child.state
    if state.phase is Phase.SUCCEEDED:
        return _completed(search, trial, now)
    if trial.outcome is not None:
        return ended(trial, trial.outcome, trial.reason, trial.message, now)
    if state.phase is not Phase.FAILED:
        return None
    if state.reason == Reason.BUDGET_EXCEEDED.value:
        why = state.message
        return ended(trial, TrialPhase.STOPPED, TuningReason.BUDGET_EXCEEDED, why, now)
    why = f"{state.reason}: {state.message}" if state.message else state.reason
    return ended(trial, TrialPhase.FAILED, TuningReason.TRIAL_FAILED, why, now)


def _completing(search: TuningSnapshot, trial: Trial) -> Trial:
    """Note that a training is complete though its workers have not ended: its result is known."""
    if _why_no_result(search, trial) is not None:
        return trial
    outcome, reason = TrialPhase.SUCCEEDED, TuningReason.TRIAL_SUCCEEDED
    return replace(trial, phase=TrialPhase.STOPPING, outcome=outcome, reason=reason, message=None)


def _completed(search: TuningSnapshot, trial: Trial, now: datetime) -> Trial:
    """Return the end of a trial whose training is complete: its last value must be a number."""
    if (found := _why_no_result(search, trial)) is not None:
        return ended(trial, TrialPhase.FAILED, *found, now)
    return ended(trial, TrialPhase.SUCCEEDED, TuningReason.TRIAL_SUCCEEDED, None, now)


def _why_no_result(search: TuningSnapshot, trial: Trial) -> tuple[TuningReason, str] | None:
    if trial.value is None:
        return TuningReason.NO_METRIC, "the training ended without a value of the metric"
    if search.spec.search.population is not None and trial.checkpoint is None:
        why = (
            "the training ended without a checkpoint from which a member of the next round could "
            "begin: let the script train with Run, which saves one at its end"
        )
        return TuningReason.NO_CHECKPOINT, why
    if math.isfinite(trial.value):
        return None
    return TuningReason.NOT_A_NUMBER, f"the last value of the metric was {trial.value}"
