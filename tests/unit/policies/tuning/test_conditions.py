import pytest

from spotrun.api.meta import ConditionStatus
from spotrun.api.tuning.words import TrialPhase, TuningConditionType, TuningReason
from spotrun.state.stored.statements import Condition
from tests.support.jobs.builders import later
from tests.support.tuning.searches import SearchBuilder, a_job, a_search

METRIC, BUDGET = TuningConditionType.METRIC_REPORTED, TuningConditionType.WITHIN_BUDGET


def stated(search: SearchBuilder, kind: TuningConditionType) -> Condition:
    [found] = [one for one in search.decide().status.conditions if one.type == kind.value]
    return found


def training(seconds: float, **metrics: tuple[int, float]) -> SearchBuilder:
    return a_search().with_trial().with_job(0, a_job(training_for=seconds), metrics=metrics)


def test_a_metric_that_nobody_reports_is_missed_by_the_names_that_are_reported() -> None:
    assert stated(training(599, val_loss=(1, 0.5)), METRIC).status is ConditionStatus.UNKNOWN
    missed = stated(training(600, val_loss=(1, 0.5), acc=(1, 0.1)), METRIC)
    assert missed.status is ConditionStatus.FALSE
    assert "no trial reports loss, they report acc, val_loss" in missed.message
    assert "report no metric at all" in stated(training(600), METRIC).message
    assert stated(training(600, loss=(1, 0.5)), METRIC).status is ConditionStatus.TRUE


def test_the_search_looks_again_when_the_metric_is_due() -> None:
    assert training(590).decide().wake_after_seconds == pytest.approx(10)
    assert training(600).decide().wake_after_seconds == float("inf")


def test_a_trial_that_ended_without_the_metric_tells_at_once() -> None:
    search = a_search().with_trial(TrialPhase.FAILED, reason=TuningReason.NO_METRIC)
    assert stated(search, METRIC).status is ConditionStatus.FALSE


def test_a_budget_without_room_says_so() -> None:
    search = a_search(budget={"maxCostUsd": "1"})
    assert stated(search, BUDGET).status is ConditionStatus.TRUE
    spent = search.with_trial(cap="1")
    assert stated(spent, BUDGET).status is ConditionStatus.FALSE


def test_a_condition_changes_its_time_with_its_status_only() -> None:
    search = a_search()
    status = search.decide().status
    again = search.with_status(conditions=status.conditions).decide(now=later(60)).status
    assert again.conditions == status.conditions
