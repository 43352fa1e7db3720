"""The rate of writes of a search's status: at once where others act on it, else later."""

from dataclasses import replace

from spotrun.policies.tuning.state import Trial, TuningState

GATHER_SECONDS = 5.0
"""Values, costs and checkpoints of trials that run may be this old."""


def seconds_to_write(old: TuningState, new: TuningState, written_seconds: float) -> float:
    """Return how long the new status can wait; 0 or less: no longer; infinity: no change."""
    if new == old:
        return float("inf")
    if _urgent(new) != _urgent(old):
        return 0.0
    return GATHER_SECONDS - written_seconds


def _urgent(status: TuningState) -> tuple[object, ...]:
    conditions = tuple((one.type, one.status, one.reason) for one in status.conditions)
    best = status.best.trial if status.best is not None else None
    trials = tuple(map(_stage, status.trials))
    return status.phase, status.reason, status.observed_generation, best, trials, conditions


def _stage(trial: Trial) -> Trial:
    """Return what is decided of a trial, without what it reports."""
    return replace(trial, value=None, step=None, course=(), usd=Trial(0, {}).usd, checkpoint=None)
