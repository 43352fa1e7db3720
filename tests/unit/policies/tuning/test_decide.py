import pytest

from spotrun.api.names import Phase
from spotrun.api.tuning.words import TrialPhase, TuningConditionType, TuningPhase, TuningReason
from spotrun.policies.tuning.steps import CreateTrial
from spotrun.search import Nothing, Suggestion
from tests.support.tuning.searches import SearchBuilder, a_job, a_search

TRIED = Suggestion({"lr": 0.5})


def test_a_trial_is_asked_for_and_then_made() -> None:
    search = a_search()
    assert (search.decide().num_wanted, search.decide().steps) == (1, ())
    decision = search.decide(TRIED)
    [trial] = decision.status.trials
    assert (trial.number, trial.phase, trial.values) == (0, TrialPhase.PENDING, {"lr": 0.5})
    assert decision.steps == (CreateTrial(0, {"lr": 0.5}, None),)


def test_a_trial_that_was_stored_and_not_made_is_made_again_with_the_same_values() -> None:
    search = a_search().begun()
    assert search.decide(Suggestion({"lr": 0.9})).steps == (CreateTrial(0, {"lr": 0.5}, None),)


@pytest.mark.parametrize(
    ("search", "wanted"),
    [
        (a_search(trials={"max": 2, "parallel": 2}).with_trial().with_job(0), 1),
        (a_search(trials={"max": 2, "parallel": 1}).with_trial().with_job(0), 0),
        (a_search(trials={"max": 1}).with_trial(TrialPhase.SUCCEEDED, value=1), 0),
        (a_search(suspend=True), 0),
        (a_search().with_trial(TrialPhase.FAILED), 1),
    ],
)
def test_no_more_trials_begin_than_there_may_be(search: SearchBuilder, wanted: int) -> None:
    assert search.decide().num_wanted == wanted


def test_values_that_do_not_come_are_asked_for_again() -> None:
    decision = a_search().decide(Nothing("the process ended with 137"))
    assert decision.status.phase is TuningPhase.RUNNING
    [searching] = [
        one for one in decision.status.conditions if one.type == TuningConditionType.SEARCHING.value
    ]
    assert searching.reason == TuningReason.NO_VALUES_YET.value
    assert "137" in searching.message


def test_a_search_that_has_nothing_left_ends() -> None:
    decision = a_search().decide(Nothing("all were tried", is_final=True))
    assert decision.status.reason is TuningReason.NO_RESULT
    assert "all were tried" in (decision.status.message or "")


def test_parameters_that_are_no_space_end_the_search_with_a_sentence() -> None:
    later_one = {"name": "b", "categorical": {"choices": ["1"]}}
    first = {
        "name": "a",
        "int": {"min": 0, "max": 2},
        "when": [{"parameter": "b", "values": ["1"]}],
    }
    status = a_search(parameters=[first, later_one]).decide().status
    assert status.phase is TuningPhase.FAILED
    assert "comes before it" in (status.message or "")


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--lr=$(params.lr)", None),
        ("--lr=$(params.rate)", "no parameter has this name"),
        ("--m=$(params.momentum)", "which has a condition and is not in every trial"),
    ],
)
def test_a_template_may_ask_for_what_every_trial_has(argument: str, says: str | None) -> None:
    container = {"name": "trainer", "image": "x", "args": ["train.py", argument]}
    when = [{"parameter": "lr", "values": ["1"]}]
    parameters = [
        {"name": "lr", "categorical": {"choices": ["1", "2"]}},
        {"name": "momentum", "uniform": {"min": "0", "max": "1"}, "when": when},
    ]
    template = {"spec": {"workers": {"template": {"spec": {"containers": [container]}}}}}
    status = a_search(parameters=parameters, template=template).decide().status
    assert (status.phase is TuningPhase.FAILED) is (says is not None)
    assert says is None or says in (status.message or "")


def test_a_decision_is_the_same_again_once_it_is_stored() -> None:
    search = a_search().begun().with_job(0, a_job(cost="0.5"), loss=0.5)
    settled = search.with_status(
        **{
            name: getattr(search.decide().status, name)
            for name in search.status.__dataclass_fields__
        }
    )
    assert settled.decide().status == settled.status


def test_the_life_of_a_search() -> None:
    search = a_search(trials={"max": 2})
    for number, loss in enumerate((0.5, 0.3)):
        search = search.begun()
        done = a_job(Phase.SUCCEEDED, cost="0.1", settled=1)
        search = search.with_job(number, done, loss=loss)
        status = search.decide().status
        search = search.with_status(trials=status.trials)
    status = search.decide().status
    assert (status.phase, status.counts.succeeded) == (TuningPhase.SUCCEEDED, 2)
    assert status.best is not None
    assert (status.best.trial, status.best.value) == (1, 0.3)
    assert status.ended_at is not None
