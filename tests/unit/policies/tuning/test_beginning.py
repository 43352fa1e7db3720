from spotrun.api.names import Phase
from spotrun.api.tuning.words import TrialPhase
from spotrun.policies.tuning.beginning import begin, may_begin, question_of
from spotrun.search import Outcome, Suggestion, suggest
from spotrun.state.job_state import World
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import SearchBuilder, a_job, a_population, a_search, usd


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


def one_ends(**spec: object) -> SearchBuilder:
    """Return a search with two places: a trial is complete, and its worker has not ended."""
    search = a_search(**{"trials": {"max": 9, "parallel": 2}, **spec})
    search = search.with_trial(cost="1", cap="5").with_trial(cost="1", cap="5")
    search = search.with_job(0, a_job(Phase.SUCCEEDED, cost="1", per_hour="3.6"), loss=0.5)
    placed = a_job(cost="1", per_hour="3.6", world=World(number=1))
    return search.with_job(1, placed)


def test_a_trial_begins_beside_the_end_of_another_where_there_is_room() -> None:
    assert one_ends().decide().num_wanted == 0, "its worker takes the node until it has ended"
    search = one_ends().with_facts(free_workers=1)
    assert search.decide().num_wanted == 1
    search = search.begun()
    assert [one.trains for one in search.status.trials] == [False, True, True]
    assert search.with_facts(free_workers=9).decide().num_wanted == 0, "both places are taken"


def test_room_that_a_trial_has_yet_to_take_is_not_given_away_again() -> None:
    search = one_ends().with_job(1, a_job(Phase.SUCCEEDED), loss=0.4).with_facts(free_workers=1)
    search = search.begun()
    assert search.decide().num_wanted == 0
    assert search.with_facts(free_workers=2).decide().num_wanted == 1


def test_a_complete_trial_reserves_what_its_workers_end_may_cost_and_gives_the_rest_back() -> None:
    search = one_ends(budget={"maxCostUsd": "10"}).with_facts(free_workers=1)
    cost = search.decide().status.cost
    assert cost.reserved_usd is not None
    assert usd("4") < cost.reserved_usd < usd("5"), "of the other trial 4"
    begun = search.begun().status.trials[2].cap_usd
    assert begun is not None
    assert begun <= usd("8") - cost.reserved_usd


def test_a_complete_trial_is_known_to_the_search_before_its_workers_have_ended() -> None:
    search = one_ends().snapshot()
    question = question_of(search, one_ends().decide().status)
    assert [one.outcome for one in question.history] == [Outcome.COMPLETE, Outcome.RUNNING]
    assert (question.history[0].objective, question.history[0].cost_usd) == (0.5, None)
