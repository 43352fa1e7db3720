from dataclasses import replace

import pytest

from spotrun.api.tuning.words import TrialPhase, TuningPhase, TuningReason
from spotrun.policies.tuning.codec import most_trials
from spotrun.policies.tuning.ends import num_no_better
from tests.support.jobs.builders import later
from tests.support.tuning.searches import SearchBuilder, a_job, a_search

DONE, FAILED = TrialPhase.SUCCEEDED, TrialPhase.FAILED


def stage(search: SearchBuilder) -> tuple[TuningPhase | None, TuningReason | None]:
    status = search.decide().status
    return status.phase, status.reason


THREE = a_search(trials={"max": 3})
GRID = a_search(
    search={"grid": {}},
    parameters=[{"name": "lr", "categorical": {"choices": ["0.1", "0.2"]}}],
    trials={"max": 9},
)


@pytest.mark.parametrize(
    ("search", "phase", "reason"),
    [
        (THREE, TuningPhase.RUNNING, TuningReason.TRIALS_RUN),
        (
            THREE.with_trial(DONE, value=1).with_trial(DONE, value=2).with_trial(),
            TuningPhase.ENDING,
            TuningReason.ALL_TRIALS_DONE,
        ),
        (
            THREE.with_trial(DONE, value=1).with_trial(FAILED).with_trial(FAILED),
            TuningPhase.SUCCEEDED,
            TuningReason.ALL_TRIALS_DONE,
        ),
        (
            THREE.with_trial(FAILED).with_trial(FAILED).with_trial(FAILED),
            TuningPhase.FAILED,
            TuningReason.NO_RESULT,
        ),
        (
            a_search(trials={"max": 9, "maxFailed": 1}).with_trial(FAILED).with_trial(FAILED),
            TuningPhase.FAILED,
            TuningReason.TOO_MANY_FAILURES,
        ),
        (
            GRID.with_trial(DONE, value=1).with_trial(DONE, value=2),
            TuningPhase.SUCCEEDED,
            TuningReason.SPACE_EXHAUSTED,
        ),
        (
            a_search(budget={"maxCostUsd": "1"}).with_trial(DONE, value=1, cost="1"),
            TuningPhase.SUCCEEDED,
            TuningReason.BUDGET_EXHAUSTED,
        ),
        (
            a_search(budget={"maxDuration": "5m"}).with_trial(DONE, value=1),
            TuningPhase.SUCCEEDED,
            TuningReason.TIME_IS_UP,
        ),
        (
            a_search(trials={"max": 9}, stopWhen={"noBetterTrials": 1})
            .with_trial(DONE, value=1)
            .with_trial(DONE, value=2)
            .with_trial(),
            TuningPhase.ENDING,
            TuningReason.NO_IMPROVEMENT,
        ),
        (a_search(suspend=True), TuningPhase.SUSPENDED, TuningReason.SUSPENDED_BY_USER),
    ],
)
def test_a_search_ends_by_its_limits(
    search: SearchBuilder, phase: TuningPhase, reason: TuningReason
) -> None:
    assert stage(search) == (phase, reason)


def test_a_goal_that_is_reached_stops_all_trials() -> None:
    search = a_search(objective={"metric": "loss", "goal": "0.3"})
    search = search.with_trial().with_job(0, loss=0.25).with_trial().with_job(1, loss=0.9)
    status = search.decide().status
    assert (status.phase, status.reason) == (TuningPhase.ENDING, TuningReason.GOAL_REACHED)
    assert {one.phase for one in status.trials} == {TrialPhase.STOPPING}
    assert status.best is not None
    assert status.best.trial == 0


def test_more_is_better_where_the_objective_says_so() -> None:
    objective = {"metric": "loss", "direction": "Maximize", "goal": "0.9"}
    search = a_search(objective=objective).with_trial().with_job(0, loss=0.95)
    assert stage(search)[1] is TuningReason.GOAL_REACHED


@pytest.mark.parametrize(
    ("on_exceeded", "phase"),
    [("StopNewTrials", TrialPhase.RUNNING), ("StopAll", TrialPhase.STOPPING)],
)
def test_when_the_time_is_up_those_that_run_do_as_is_asked(
    on_exceeded: str, phase: TrialPhase
) -> None:
    budget = {"maxDuration": "5m", "onExceeded": on_exceeded}
    [trial] = a_search(budget=budget).with_trial().with_job(0).trials()
    assert trial.phase is phase


def test_without_room_for_another_the_one_that_runs_is_waited_for() -> None:
    """It may give back money at its end; StopAll does not wait."""
    spec = {"trials": {"max": 9, "parallel": 2}}
    budget = {"maxCostUsd": "5"}
    search = a_search(budget=budget, **spec).with_trial(cap="5").with_job(0)
    decision = search.decide()
    assert (decision.status.phase, decision.num_wanted) == (TuningPhase.RUNNING, 0)
    stopped = search.with_spec(budget={**budget, "onExceeded": "StopAll"})
    assert stage(stopped) == (TuningPhase.ENDING, TuningReason.BUDGET_EXHAUSTED)


def test_a_budget_that_is_lowered_below_what_is_spent_stops_all() -> None:
    search = a_search(budget={"maxCostUsd": "5"}).with_trial(cap="5", cost="3").with_job(0)
    assert search.trials()[0].phase is TrialPhase.RUNNING
    [trial] = search.with_spec(budget={"maxCostUsd": "2"}).trials()
    assert (trial.phase, trial.outcome) == (TrialPhase.STOPPING, TrialPhase.STOPPED)


def test_a_limit_that_is_raised_has_the_search_go_on() -> None:
    search = THREE.with_trial(DONE, value=1).with_trial(DONE, value=2).with_trial()
    search = search.with_job(2).with_status(phase=TuningPhase.ENDING)
    assert stage(search.with_spec(trials={"max": 4}))[0] is TuningPhase.RUNNING


def test_what_is_over_stays_over() -> None:
    over = THREE.with_trial(DONE, value=1).with_status(phase=TuningPhase.SUCCEEDED)
    decision = over.with_job(0, a_job()).decide(now=later(99))
    assert decision.status == over.status
    assert not decision.num_wanted


def test_a_search_ends_where_the_status_has_no_more_room() -> None:
    many = [
        {"name": f"p{number}", "categorical": {"choices": ["x" * 128, "y"]}} for number in range(20)
    ]
    search = a_search(trials={"max": 1000}, parameters=many)
    most = most_trials(search.snapshot().spec)
    trial = search.with_trial(TrialPhase.SUCCEEDED, value=0.5, values={}).status.trials[0]
    begun = tuple(replace(trial, number=number) for number in range(most))
    decision = search.with_status(trials=begun).decide()
    assert decision.num_wanted == 0
    assert decision.status.reason is TuningReason.ALL_TRIALS_DONE
    assert "no room" in (decision.status.message or "")
    assert search.with_status(trials=begun[1:]).decide().num_wanted == 1


PRUNED, STOPPED, RUNS = TrialPhase.PRUNED, TrialPhase.STOPPED, TrialPhase.RUNNING


@pytest.mark.parametrize(
    ("trials", "least", "count"),
    [
        ([], 0, 0),
        ([(DONE, 3)], 0, 0),
        ([(DONE, 3), (DONE, 2), (DONE, 1)], 0, 0),
        ([(DONE, 1), (DONE, 2), (DONE, 1)], 0, 2),  # an equal one is no better
        ([(DONE, 1), (DONE, 2), (DONE, 0.5), (DONE, 4)], 0, 1),
        ([(DONE, 1), (DONE, 0.95), (DONE, 0.9)], 0.2, 2),
        ([(DONE, 1), (DONE, 0.95), (DONE, 0.7)], 0.2, 0),
        ([(DONE, 1), (PRUNED, 0.5), (STOPPED, 0.5)], 0, 2),
        ([(DONE, 1), (FAILED, None), (RUNS, 0.5)], 0, 0),
        ([(PRUNED, 1), (STOPPED, 1)], 0, 0),  # nothing to be better than
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_trials_count_since_the_last_better_one(
    trials: list[tuple[TrialPhase, float | None]], least: float, count: int, sign: int
) -> None:
    built = a_search(objective={"metric": "m", "direction": "Maximize" if sign < 0 else "Minimize"})
    for phase, value in trials:
        built = built.with_trial(phase, value=None if value is None else sign * value)
    objective = built.snapshot().spec.objective
    assert num_no_better(objective, least, built.status.trials) == count


def test_trials_count_in_the_order_of_their_ends() -> None:
    built = a_search().with_trial(DONE, value=1).with_trial(DONE, value=2)
    first, second = built.status.trials
    objective = built.snapshot().spec.objective
    assert num_no_better(objective, 0, (first, second)) == 1
    assert num_no_better(objective, 0, (replace(first, ended_at=later(1)), second)) == 0


def test_a_search_goes_on_where_a_trial_that_ran_is_better_after_all() -> None:
    built = a_search(trials={"max": 9}, stopWhen={"noBetterTrials": 1})
    built = built.with_trial(DONE, value=2).with_trial(DONE, value=3)
    assert stage(built.with_trial())[0] is TuningPhase.ENDING
    assert stage(built.with_trial(DONE, value=1))[0] is TuningPhase.RUNNING
