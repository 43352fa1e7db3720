"""The beginning of trials: one per pass, with values and money stored before the job exists."""

from dataclasses import replace
from datetime import datetime

from spotrun.money.units import Usd
from spotrun.policies.tuning.money import next_cap, spent, whole_trial_usd
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.space import algorithm_of, direction_of, searched, space_of
from spotrun.policies.tuning.state import Trial, TuningState
from spotrun.search import Question, Suggestion


def may_begin(search: TuningSnapshot, status: TuningState) -> bool:
    """Whether another trial may begin beside those that run, and can be paid for."""
    if search.spec.suspend or len(status.trials) >= search.spec.trials.max:
        return False
    if not _has_place(search, status):
        return False
    if _waits_for_its_round(search, status):
        return False
    return not _has_limit(search) or next_cap(search, status) is not None


def question_of(search: TuningSnapshot, status: TuningState) -> Question:
    """Return the question for the values of the next trial; raises ValueError."""
    return Question(
        space=space_of(search.spec),
        algorithm=algorithm_of(search.spec),
        direction=direction_of(search.spec.objective),
        number=len(status.trials),
        history=tuple(map(searched, status.trials)),
        budget_left=_share_left(search, status),
    )


def begin(
    search: TuningSnapshot, status: TuningState, values: Suggestion, now: datetime
) -> TuningState:
    """Note the next trial and reserve its money; its number is given out once."""
    trial = Trial(
        number=len(status.trials),
        values=values.values,
        parent=values.parent,
        cap_usd=next_cap(search, status) if _has_limit(search) else None,
        expected_usd=whole_trial_usd(search, status.trials),
        begun_at=now,
    )
    return replace(status, trials=(*status.trials, trial))


def _has_place(search: TuningSnapshot, status: TuningState) -> bool:
    """Whether fewer trials run than allowed: a complete trial gives its place back.

    Until its workers have ended it still uses their nodes. So the next trial begins then only if
    there is room beside it: otherwise its pods would wait, and an autoscaler might create nodes for
    them.
    """
    parallel = search.spec.trials.parallel
    if sum(not one.has_ended for one in status.trials) < parallel:
        return True
    if sum(one.trains for one in status.trials) >= parallel:
        return False
    not_placed = sum(one.trains and not _is_placed(search, one) for one in status.trials)
    workers = search.spec.template.spec.workers.replicas
    return search.free_workers >= (not_placed + 1) * workers


def _is_placed(search: TuningSnapshot, trial: Trial) -> bool:
    child = search.children.get(trial.number)
    return child is not None and bool(child.state.world.number)


def _waits_for_its_round(search: TuningSnapshot, status: TuningState) -> bool:
    """Whether trials of the round before still run, on which the next member depends."""
    population = search.spec.search.population
    if population is None:
        return False
    first = len(status.trials) // population.size * population.size
    return any(one.trains for one in status.trials[:first])


def _has_limit(search: TuningSnapshot) -> bool:
    budget = search.spec.budget
    return budget is not None and budget.max_cost_usd is not None


def _share_left(search: TuningSnapshot, status: TuningState) -> float:
    budget = search.spec.budget
    if budget is None or budget.max_cost_usd is None:
        return 1.0
    used = spent(status.trials).exact / Usd.of(budget.max_cost_usd).exact
    return max(0.0, float(1 - used))
