from spotrun.api.tuning.words import TrialPhase
from spotrun.policies.tuning.beginning import begin, may_begin, question_of
from spotrun.search import Outcome, Suggestion
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import a_search, usd


def test_a_question_has_the_history_and_the_share_of_money_left() -> None:
    search = a_search(budget={"maxCostUsd": "10"}, trials={"max": 9})
    search = search.with_trial(TrialPhase.SUCCEEDED, value=0.5, cost="2").with_trial(cost="0.5")
    question = question_of(search.snapshot(), search.status)
    assert (question.number, question.budget_left) == (2, 0.75)
    done, running = question.history
    assert (done.outcome, done.objective, done.cost_usd) == (Outcome.COMPLETE, 0.5, 2.0)
    assert (running.outcome, running.objective, running.cost_usd) == (Outcome.RUNNING, None, None)


def test_the_money_of_a_trial_is_reserved_with_its_values() -> None:
    search = a_search(budget={"maxCostUsd": "10"}, trials={"max": 9, "parallel": 2})
    status = begin(search.snapshot(), search.status, Suggestion({"lr": 0.1}), NOW)
    assert (status.trials[0].cap_usd, status.trials[0].begun_at) == (usd("5"), NOW)
    assert may_begin(search.snapshot(), status)
    status = begin(search.snapshot(), status, Suggestion({"lr": 0.2}), NOW)
    assert not may_begin(search.snapshot(), status)
