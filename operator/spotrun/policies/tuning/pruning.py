"""The end of trials that will not win because others are better: by step, never by time."""

from dataclasses import replace

from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.policies.tuning.following import stopping
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.space import compared, direction_of, pruning_of
from spotrun.policies.tuning.state import Trial, TuningState
from spotrun.search import Judge, NoPruning


def prune(search: TuningSnapshot, status: TuningState) -> TuningState:
    """Begin to stop the trials that will not win."""
    pruning = pruning_of(search.spec)
    if isinstance(pruning, NoPruning):
        return status
    if not any(trial.phase is TrialPhase.RUNNING for trial in status.trials):
        return status
    direction = direction_of(search.spec.objective)
    judge = Judge(pruning, map(compared, status.trials), direction)

    def judged(trial: Trial) -> Trial:
        if trial.phase is not TrialPhase.RUNNING:
            return trial
        seen = compared(trial)
        stop = judge.why_stopped(seen)
        if stop is None:
            return replace(trial, rung=judge.rung_of(seen) or None)
        return stopping(trial, TrialPhase.PRUNED, TuningReason.TRIAL_PRUNED, stop.why)

    return replace(status, trials=tuple(map(judged, status.trials)))
