"""The state of a search for people: the best trial, the counts, and why it continues or ends."""

import math
from collections.abc import Iterable
from dataclasses import replace

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.tuning.tuningjob import Objective
from spotrun.api.tuning.words import TrialPhase, TuningPhase, TuningReason
from spotrun.policies.tuning.ends import End, has_reached
from spotrun.policies.tuning.following import WAITS
from spotrun.policies.tuning.money import cost_of
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.space import direction_of
from spotrun.policies.tuning.state import Best, Counts, Trial, TuningState
from spotrun.search.placeholders import text_of
from spotrun.search.space import Values

MOST_PARETO = 64
_MOST_VALUES_CHARS = 200
_MOST_WHY_CHARS = 2 * MAX_DETAIL_CHARS


def report(search: TuningSnapshot, status: TuningState, end: End | None) -> TuningState:
    """Describe the state of the search; `end` is the reason why no more trials begin."""
    objective, trials = search.spec.objective, status.trials
    status = replace(
        status,
        counts=_counts(trials, search.spec.trials.max),
        best=_best(search, trials),
        pareto=_pareto(objective, trials),
        cost=cost_of(search, status, _num_left(search, status, end)),
        observed_generation=search.generation,
    )
    phase, reason, why = _phase(search, status, end)
    if len(why) > _MOST_WHY_CHARS:  # it may quote what a user wrote
        why = f"{why[:_MOST_WHY_CHARS]}...; "
    return replace(status, phase=phase, reason=reason, message=f"{why}{_in_words(status)}")


def best_of(objective: Objective, trials: Iterable[Trial]) -> Trial | None:
    """Return the best trial: of the complete ones, and of those that have reached the goal.

    If there are none of these, trials that were stopped early count.
    """
    loss = direction_of(objective).loss
    known = [
        one
        for one in trials
        if one.phase is not TrialPhase.FAILED
        and one.outcome is not TrialPhase.FAILED
        and one.value is not None
        and math.isfinite(one.value)
    ]
    whole = [one for one in known if one.is_complete or has_reached(objective, one)]
    return min(whole or known, key=lambda one: (loss(one.value), one.number), default=None)


def shown(values: Values) -> str:
    """Return a trial's values in a line."""
    line = ", ".join(f"{name}={_short(value)}" for name, value in values.items())
    return line if len(line) <= _MOST_VALUES_CHARS else f"{line[:_MOST_VALUES_CHARS]}..."


def _short(value: str | float | bool) -> str:
    is_long = isinstance(value, float) and not isinstance(value, bool)
    return f"{value:.5g}" if is_long else text_of(value)


def _best(search: TuningSnapshot, trials: Iterable[Trial]) -> Best | None:
    one = best_of(search.spec.objective, trials)
    if one is None or one.value is None:
        return None
    name = search.job_name(one.number)
    return Best(
        trial=one.number,
        name=name,
        value=one.value,
        step=one.step,
        values=one.values,
        checkpoint=one.checkpoint,
    )


def _counts(trials: Iterable[Trial], most: int) -> Counts:
    phases = [one.phase for one in trials]
    return Counts(
        most=most,
        running=sum(not one.has_ended for one in trials),
        succeeded=phases.count(TrialPhase.SUCCEEDED),
        pruned=phases.count(TrialPhase.PRUNED),
        stopped=phases.count(TrialPhase.STOPPED),
        failed=phases.count(TrialPhase.FAILED),
    )


def _pareto(objective: Objective, trials: Iterable[Trial]) -> tuple[int, ...]:
    """Return the complete trials that no other beats in value and cost, the cheapest first."""
    loss = direction_of(objective).loss
    complete = [one for one in trials if one.phase is TrialPhase.SUCCEEDED]
    front: list[Trial] = []
    for one in sorted(complete, key=lambda trial: (trial.usd, loss(trial.value), trial.number)):
        if not front or loss(one.value) < loss(front[-1].value):
            front.append(one)
    return tuple(one.number for one in front[-MOST_PARETO:])


def _num_left(search: TuningSnapshot, status: TuningState, end: End | None) -> int:
    if end is not None:
        return 0
    most = min(search.spec.trials.max, status.grid_size or search.spec.trials.max)
    return max(most - len(status.trials), 0)


def _phase(
    search: TuningSnapshot, status: TuningState, end: End | None
) -> tuple[TuningPhase, TuningReason, str]:
    if end is not None:
        if status.counts.running:
            return TuningPhase.ENDING, end.reason, f"{end.why}; "
        if status.best is None:
            failed = end.reason is TuningReason.TOO_MANY_FAILURES
            why = f"{end.why}; no trial has a value of {search.spec.objective.metric}"
            reason = end.reason if failed else TuningReason.NO_RESULT
            return TuningPhase.FAILED, reason, f"{why}; "
        return TuningPhase.SUCCEEDED, end.reason, f"{end.why}; "
    if search.spec.suspend:
        return TuningPhase.SUSPENDED, TuningReason.SUSPENDED_BY_USER, "spec.suspend is true; "
    return TuningPhase.RUNNING, TuningReason.TRIALS_RUN, ""


def _waits(status: TuningState) -> str:
    """Return how many trials wait for room and for what they wait; empty if none waits."""
    reasons = [one.reason for one in status.trials if one.trains and one.reason in WAITS]
    if not reasons:
        return ""
    what = ", ".join(sorted({reason.value for reason in reasons}))
    return f" ({len(reasons)} of them {'waits' if len(reasons) == 1 else 'wait'}: {what})"


def _in_words(status: TuningState) -> str:
    counts, cost, best = status.counts, status.cost, status.best
    run = f"{counts.running} run{_waits(status)}"
    parts = [f"{counts.ended} of {counts.most} trials have ended, {run}"]
    if counts.pruned:
        saved = cost.saved_by_pruning_usd
        were = "was" if counts.pruned == 1 else "were"
        which = f", which saved {saved}" if saved else ""
        parts.append(f"{counts.pruned} {were} pruned{which}")
    if best is not None:
        parts.append(f"the best is trial {best.trial} with {best.value:g} ({shown(best.values)})")
    parts.append(f"{cost.usd} spent")
    return "; ".join(parts)
