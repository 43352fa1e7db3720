from spotrun.api.tuning.words import TrialPhase
from spotrun.policies.tuning.beginning import begin, may_begin, question_of
from spotrun.search import Outcome, Suggestion, suggest
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import a_population, a_search, usd


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


def test_a_round_of_a_population_begins_when_all_of_the_one_before_have_ended() -> None:
    search = a_population().with_trial(TrialPhase.SUCCEEDED, value=0.5).with_trial()
    assert not may_begin(search.snapshot(), search.status)
    ended = a_population().with_trial(TrialPhase.SUCCEEDED, value=0.5)
    assert may_begin(ended.snapshot(), ended.status), "this is the same round"
    ended = ended.with_trial(TrialPhase.FAILED)
    assert may_begin(ended.snapshot(), ended.status)


def test_the_parent_of_a_trial_is_noted_before_its_job_is_made() -> None:
    search = a_population()
    for value in (0.5, 0.1):
        search = search.with_trial(TrialPhase.SUCCEEDED, value=value, checkpoint="ml/x/step-1.g1")
    answer = suggest(question_of(search.snapshot(), search.status))
    assert isinstance(answer, Suggestion)
    assert (answer.parent, answer.values["lr"] != 0.02) == (1, True), "trial 0 was the worst"
    status = begin(search.snapshot(), search.status, answer, NOW)
    assert (status.trials[2].parent, status.trials[2].values) == (1, answer.values)
