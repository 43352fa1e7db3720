import pytest

from spotrun.api.tuning.words import TrialPhase, TuningReason
from tests.support.tuning.searches import SearchBuilder, a_search

ASHA = {"asha": {"graceSteps": 100, "maxSteps": 900, "reduction": 3}}
MEDIAN = {"median": {"startupTrials": 2}}


def with_courses(search: SearchBuilder, *values: float) -> SearchBuilder:
    for number, value in enumerate(values):
        search = search.with_trial(value=value, step=100, course={100: value}).with_job(number)
    return search


@pytest.mark.parametrize(
    ("pruning", "stopped"),
    [(None, []), (ASHA, [1, 2])],
)
def test_the_worst_at_a_rung_are_stopped(
    pruning: dict[str, object] | None, stopped: list[int]
) -> None:
    spec = {"pruning": pruning} if pruning is not None else {}
    search = with_courses(a_search(trials={"max": 9, "parallel": 3}, **spec), 0.1, 0.5, 0.9)
    trials = search.trials()
    assert [one.number for one in trials if one.phase is TrialPhase.STOPPING] == stopped
    for number in stopped:
        trial = trials[number]
        assert (trial.outcome, trial.reason) == (TrialPhase.PRUNED, TuningReason.TRIAL_PRUNED)
        assert "at step 100 it had" in (trial.message or "")


def test_the_median_counts_complete_trials_only() -> None:
    search = a_search(trials={"max": 9}, pruning=MEDIAN)
    for value in (0.2, 0.4):
        search = search.with_trial(TrialPhase.SUCCEEDED, value=value, course={100: value})
    search = search.with_trial(value=0.9, course={100: 0.9}).with_job(2)
    assert search.trials()[2].phase is TrialPhase.STOPPING


def test_a_trial_that_is_stopped_already_keeps_its_reason() -> None:
    search = a_search(pruning=ASHA).with_trial(
        TrialPhase.STOPPING, outcome=TrialPhase.STOPPED, reason=TuningReason.TRIAL_STOPPED
    )
    assert search.with_job(0).trials()[0].reason is TuningReason.TRIAL_STOPPED


def test_who_went_on_at_a_rung_is_not_stopped_there_when_better_ones_come() -> None:
    search = with_courses(a_search(trials={"max": 9, "parallel": 3}, pruning=ASHA), 0.5)
    [first] = search.trials()[:1]
    assert (first.phase, first.rung) == (TrialPhase.RUNNING, 100)
    search = a_search(trials={"max": 9, "parallel": 3}, pruning=ASHA)
    search = search.with_trial(value=0.5, step=100, course={100: 0.5}, rung=100).with_job(0)
    for number in (1, 2, 3):
        search = search.with_trial(value=0.1, step=100, course={100: 0.1}).with_job(number)
    assert search.trials()[0].phase is TrialPhase.RUNNING
