"""The rate of writes of a search's status: at once if others act on it, otherwise later.

The status contains the whole history, so each write of a long search is large: the larger it is,
the less often values of running trials are written.
"""

from dataclasses import replace

from spotrun.api.tuning.status import MOST_COURSE_CHARS
from spotrun.api.tuning.words import TrialPhase
from spotrun.policies.tuning.following import WAITS
from spotrun.policies.tuning.state import Trial, TuningState

GATHER_SECONDS, LATEST_SECONDS = 5.0, 60.0
"""Allowed ages of values, costs and checkpoints of running trials: short searches, any search."""
_BYTES_PER_SECOND = 16_000
"""The rate at which a search writes them: up to 80 kB, about 100 trials, it writes every 5 s."""
_TRIAL_CHARS, _REPORT_CHARS = 400, 15


def seconds_to_write(old: TuningState, new: TuningState, written_seconds: float) -> float:
    """Return how long the new status can wait; 0 or less: no longer; infinity: no change."""
    if new == old:
        return float("inf")
    if _urgent(new) != _urgent(old):
        return 0.0
    return gather_seconds(new) - written_seconds


def gather_seconds(status: TuningState) -> float:
    """Return how old the values of trials that run may be, by the size of the whole status."""
    seconds = size_chars(status) / _BYTES_PER_SECOND
    return min(max(seconds, GATHER_SECONDS), LATEST_SECONDS)


def size_chars(status: TuningState) -> int:
    """Return about how many characters the trials take; writing them would take much longer."""
    courses = (_REPORT_CHARS * len(one.course) for one in status.trials)
    course_chars = sum(min(chars, MOST_COURSE_CHARS) for chars in courses)
    return _TRIAL_CHARS * len(status.trials) + course_chars


def _urgent(status: TuningState) -> tuple[object, ...]:
    conditions = tuple((one.type, one.status, one.reason) for one in status.conditions)
    best = status.best.trial if status.best is not None else None
    trials = tuple(map(_stage, status.trials))
    return status.phase, status.reason, status.observed_generation, best, trials, conditions


def _stage(trial: Trial) -> Trial:
    """Return what is decided about a trial, without what it reports.

    A complete trial is written with its end, or with the next trial that takes its place. For one
    that waits the cause may change every second: only the fact that it waits is written at once.
    """
    if trial.is_complete and not trial.has_ended:
        trial = replace(trial, phase=TrialPhase.RUNNING, outcome=None, reason=None, message=None)
    if trial.reason in WAITS:
        trial = replace(trial, message=None)
    reported = Trial(0, {})
    return replace(
        trial,
        value=reported.value,
        step=reported.step,
        course=reported.course,
        rung=reported.rung,  # a rung that is not written is judged again
        usd=reported.usd,
        checkpoint=reported.checkpoint,
    )
