"""Whether a search continues: goal, trials, failures, time and money, each by its own rule.

It is concluded again in each pass, so a limit that is raised while trials still run takes effect.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from spotrun.api.tuning.limits import OnExceeded
from spotrun.api.tuning.tuningjob import Objective
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.money.units import Usd
from spotrun.policies.tuning.codec import most_trials
from spotrun.policies.tuning.following import stopping
from spotrun.policies.tuning.money import next_cap, spent
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.space import direction_of
from spotrun.policies.tuning.state import Trial, TuningState


@dataclass(frozen=True)
class End:
    """The reason why no more trials begin."""

    reason: TuningReason
    why: str
    stops_all: bool = False


def why_over(search: TuningSnapshot, status: TuningState, now: datetime) -> End | None:
    """Return why no more trials begin; None: more trials begin, now or later."""
    return (
        _on_goal(search, status)
        or _on_failures(search, status)
        or _on_time(search, status, now)
        or _on_number(search, status)
        or _on_no_improvement(search, status)
        or _on_money(search, status)
    )


def stop_all(status: TuningState, end: End) -> TuningState:
    """Begin to stop the trials that run."""

    def stopped(trial: Trial) -> Trial:
        if trial.has_ended or trial.phase is TrialPhase.STOPPING:
            return trial
        reason = TuningReason.TRIAL_STOPPED
        return stopping(trial, TrialPhase.STOPPED, reason, f"the search has ended: {end.why}")

    return replace(status, trials=tuple(map(stopped, status.trials)))


def has_reached(objective: Objective, trial: Trial) -> bool:
    """Whether a trial is good enough."""
    if objective.goal is None:
        return False
    return direction_of(objective).reaches(trial.value, objective.goal.number)


def num_no_better(objective: Objective, least: float, trials: Iterable[Trial]) -> int:
    """Return how many trials have ended since the last one that was better by more than `least`.

    They count in the order of their ends. Before a trial is complete there is nothing to compare
    with, and a failed trial says nothing about its parameters.
    """
    direction, count = direction_of(objective), 0
    best: float | None = None
    judged = (one for one in trials if not (one.trains or one.phase is TrialPhase.FAILED))
    for one in sorted(judged, key=_end_order):
        has_result = one.is_complete and one.value is not None
        if has_result and direction.is_better(one.value, best, least):
            best, count = one.value, 0
        elif best is not None:
            count += 1
    return count


def time_is_up_at(search: TuningSnapshot, status: TuningState) -> datetime | None:
    """Return the moment after which no trial begins; None: there is no such moment."""
    budget = search.spec.budget
    if budget is None or budget.max_duration is None:
        return None
    try:
        return (status.started_at or search.created_at) + timedelta(
            seconds=budget.max_duration.seconds
        )
    except OverflowError:
        return None


def _on_goal(search: TuningSnapshot, status: TuningState) -> End | None:
    objective = search.spec.objective
    reached = next((one for one in status.trials if has_reached(objective, one)), None)
    if reached is None:
        return None
    why = (
        f"trial {reached.number} has reached the goal: {objective.metric} {reached.value:g} at "
        f"step {reached.step}"
    )
    return End(TuningReason.GOAL_REACHED, why, stops_all=True)


def _on_failures(search: TuningSnapshot, status: TuningState) -> End | None:
    failed = [one for one in status.trials if one.phase is TrialPhase.FAILED]
    most = search.spec.trials.max_failed
    if len(failed) <= most:
        return None
    last = failed[-1]
    why = f"{len(failed)} trials have failed, trials.maxFailed is {most}; the last one, trial "
    why += f"{last.number}: {last.message}"
    return End(TuningReason.TOO_MANY_FAILURES, why, stops_all=True)


def _on_time(search: TuningSnapshot, status: TuningState, now: datetime) -> End | None:
    end = time_is_up_at(search, status)
    if end is None or now < end:
        return None
    assert search.spec.budget is not None, "it says when the time is up"
    why = f"budget.maxDuration, {search.spec.budget.max_duration}, has passed"
    return End(TuningReason.TIME_IS_UP, why, stops_all=_stops_all(search))


def _on_number(search: TuningSnapshot, status: TuningState) -> End | None:
    most, begun = search.spec.trials.max, len(status.trials)
    if status.grid_size is not None and begun >= status.grid_size:
        why = f"all {status.grid_size} points of the grid were tried"
        return End(TuningReason.SPACE_EXHAUSTED, why)
    if begun >= (room := most_trials(search.spec)):
        full = "and the status has no room for more trials with these parameters"
        why = f"{room} trials have begun, {full}"
        return End(TuningReason.ALL_TRIALS_DONE, why)
    if begun < most:
        return None
    return End(TuningReason.ALL_TRIALS_DONE, f"trials.max, {most}, have begun")


def _on_no_improvement(search: TuningSnapshot, status: TuningState) -> End | None:
    limit = search.spec.stop_when
    if limit is None:
        return None
    least = limit.min_improvement
    count = num_no_better(search.spec.objective, least.number, status.trials)
    if count < limit.no_better_trials:
        return None
    why = f"{count} trials in a row were no better, stopWhen.noBetterTrials is "
    why += str(limit.no_better_trials)
    return End(TuningReason.NO_IMPROVEMENT, f"{why}, by more than {least}" if least.number else why)


def _end_order(trial: Trial) -> tuple[bool, datetime | None, int]:
    """Return the order of ends; complete trials whose workers have not ended are the last."""
    return trial.ended_at is None, trial.ended_at, trial.number


def _on_money(search: TuningSnapshot, status: TuningState) -> End | None:
    """Return the end for lack of money; only StopAll does not wait for trials to return money."""
    budget = search.spec.budget
    if budget is None or budget.max_cost_usd is None:
        return None
    if spent(status.trials) >= Usd.of(budget.max_cost_usd):  # the budget may have been lowered
        why = f"budget.maxCostUsd, ${budget.max_cost_usd}, is spent"
        return End(TuningReason.BUDGET_EXHAUSTED, why, stops_all=True)
    if next_cap(search, status) is not None:
        return None
    if not _stops_all(search) and not all(one.has_ended for one in status.trials):
        return None
    why = f"budget.maxCostUsd, ${budget.max_cost_usd}, has no room for another trial"
    return End(TuningReason.BUDGET_EXHAUSTED, why, stops_all=_stops_all(search))


def _stops_all(search: TuningSnapshot) -> bool:
    budget = search.spec.budget
    return budget is not None and budget.on_exceeded is OnExceeded.STOP_ALL
