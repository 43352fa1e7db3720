"""Events of a search: which changes of the status are announced to people."""

from collections.abc import Iterator
from dataclasses import dataclass

from spotrun.api.meta import ConditionStatus
from spotrun.api.tuning.words import (
    TrialPhase,
    TuningConditionType,
    TuningPhase,
    TuningReason,
)
from spotrun.policies.tuning.report import shown
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.state import OVER, Trial, TuningState


@dataclass(frozen=True)
class TuningNews:
    """An event on the search, for people."""

    reason: TuningReason
    message: str
    is_warning: bool = False


_REASONS = {
    TrialPhase.SUCCEEDED: TuningReason.TRIAL_SUCCEEDED,
    TrialPhase.PRUNED: TuningReason.TRIAL_PRUNED,
    TrialPhase.STOPPED: TuningReason.TRIAL_STOPPED,
    TrialPhase.FAILED: TuningReason.TRIAL_FAILED,
}


def news(search: TuningSnapshot, old: TuningState, new: TuningState) -> tuple[TuningNews, ...]:
    """Return the events for a change of status."""
    return (
        *_trials(old, new),
        *_best(search, old, new),
        *_metric(old, new),
        *_phase(old, new),
    )


def _trials(old: TuningState, new: TuningState) -> Iterator[TuningNews]:
    before = {one.number: one for one in old.trials}
    for one in new.trials:
        known = before.get(one.number)
        if known is None:
            yield TuningNews(TuningReason.TRIAL_BEGUN, _begun(one))
        elif one.has_ended and not known.has_ended:
            is_bad = one.phase is TrialPhase.FAILED
            yield TuningNews(_REASONS[one.phase], _ended(one), is_warning=is_bad)


def _begun(trial: Trial) -> str:
    told = f"trial {trial.number} begins with {shown(trial.values)}"
    if trial.parent is not None:
        told += f", from the checkpoint of trial {trial.parent}"
    if trial.expected_usd is not None:
        told += f"; expected cost {trial.expected_usd}"
    return f"{told}; at most {trial.cap_usd}" if trial.cap_usd is not None else told


def _ended(trial: Trial) -> str:
    value = f" with {trial.value:g} at step {trial.step}" if trial.value is not None else ""
    why = f": {trial.message}" if trial.message else ""
    return f"trial {trial.number} ended as {trial.phase.value}{value}, cost {trial.usd}{why}"


def _best(search: TuningSnapshot, old: TuningState, new: TuningState) -> Iterator[TuningNews]:
    before, best = old.best, new.best
    if best is None or (before is not None and before.trial == best.trial):
        return
    than = f", after {before.value:g} of trial {before.trial}" if before is not None else ""
    metric = search.spec.objective.metric
    told = f"trial {best.trial} is the best with {metric} {best.value:g}{than}: "
    yield TuningNews(TuningReason.NEW_BEST, told + shown(best.values))


def _metric(old: TuningState, new: TuningState) -> Iterator[TuningNews]:
    kind = TuningConditionType.METRIC_REPORTED.value
    was, now = (
        next((one for one in status.conditions if one.type == kind), None) for status in (old, new)
    )
    if now is None or now.status is not ConditionStatus.FALSE:
        return
    if was is None or was.status is not ConditionStatus.FALSE:
        yield TuningNews(TuningReason.METRIC_MISSING, now.message, is_warning=True)


def _phase(old: TuningState, new: TuningState) -> Iterator[TuningNews]:
    if new.phase in OVER and old.phase not in OVER and new.reason is not None:
        is_bad = new.phase is TuningPhase.FAILED
        yield TuningNews(new.reason, new.message or "", is_warning=is_bad)
