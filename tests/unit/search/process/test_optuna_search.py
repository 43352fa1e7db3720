import math
from dataclasses import replace

import pytest

from spotrun.search import (
    Bayesian,
    Categorical,
    Direction,
    Outcome,
    Parameter,
    Question,
    Sampler,
    Space,
    Trial,
    Uniform,
    Values,
)
from spotrun.search.process import optuna_search
from spotrun.search.process.optuna_search import ask
from tests.support.search.spaces import TRAINING, a_history, a_trial

TPE, PER_DOLLAR = Bayesian(3), Bayesian(3, per_dollar=True)


def asked(
    algorithm: Bayesian, history: tuple[Trial, ...], number: int = 90, left: float = 1.0
) -> Values:
    question = Question(TRAINING, algorithm, Direction.MINIMIZE, number, history, left)
    return ask(question).values


@pytest.mark.parametrize("algorithm", [TPE, PER_DOLLAR])
def test_the_same_question_has_the_same_answer(algorithm: Bayesian) -> None:
    history = a_history(20)
    first = asked(algorithm, history)
    assert asked(algorithm, history) == first
    assert asked(algorithm, history, number=91) != first
    assert asked(replace(algorithm, seed=4), history) != first


@pytest.mark.parametrize("algorithm", [TPE, PER_DOLLAR])
def test_values_are_of_the_space(algorithm: Bayesian) -> None:
    history = a_history(30)
    for number in range(30, 40):
        values = asked(algorithm, history, number)
        assert TRAINING.fill(lambda one, known=values: known[one.name]) == values  # type: ignore[misc]
        assert values["layers"] in range(2, 25, 2)


def test_it_looks_where_trials_were_good() -> None:
    history = a_history(40)
    off = [
        abs(math.log10(float(asked(TPE, history, number)["lr"])) + 3) for number in range(40, 55)
    ]
    assert sum(off) / len(off) < 0.75, "random draws are 1 away on average"


def test_a_maximum_is_looked_for_as_well() -> None:
    history = tuple(replace(one, objective=-(one.objective or 0)) for one in a_history(40))
    questions = [
        Question(TRAINING, TPE, Direction.MAXIMIZE, number, history) for number in range(40, 55)
    ]
    off = [abs(math.log10(float(ask(one).values["lr"])) + 3) for one in questions]
    assert sum(off) / len(off) < 0.75


def mean_layers(algorithm: Bayesian, left: float) -> float:
    history = a_history(40)  # a trial's cost is its number of layers, its loss has nothing of it
    found = [asked(algorithm, history, number, left) for number in range(40, 60)]
    return sum(float(values["layers"]) for values in found) / len(found)


def test_cheaper_trials_are_preferred_while_there_is_money() -> None:
    assert mean_layers(PER_DOLLAR, left=1.0) < 0.6 * mean_layers(TPE, left=1.0)
    assert mean_layers(PER_DOLLAR, left=0.0) > 1.3 * mean_layers(PER_DOLLAR, left=1.0)


def test_values_that_diverge_are_kept_away_from() -> None:
    def diverged(trial: Trial) -> Trial:
        if float(trial.values["lr"]) < 1e-3:
            return trial
        return replace(a_trial(trial.number, math.nan), values=trial.values)

    history = tuple(map(diverged, a_history(40)))
    high = [float(asked(TPE, history, number)["lr"]) > 3e-3 for number in range(40, 60)]
    assert sum(high) <= 4


def test_trials_that_run_or_failed_are_no_obstacle() -> None:
    some = a_history(12)
    history = (
        *some[:8],
        replace(some[8], outcome=Outcome.RUNNING, objective=None, reports=()),
        replace(some[9], outcome=Outcome.FAILED, objective=None, reports=()),
        replace(some[10], outcome=Outcome.PRUNED, objective=None),
        replace(some[11], outcome=Outcome.PRUNED, objective=None, reports=()),
    )
    assert asked(TPE, history)
    assert asked(PER_DOLLAR, history)


def test_a_choice_of_one_is_none_of_true() -> None:
    domain = Categorical((1, True, "1"))
    space = Space((Parameter("x", domain), Parameter("y", Uniform(0.0, 1.0))))
    history = tuple(
        a_trial(n, float(n % 3), values={"x": domain.choices[n % 3], "y": n / 30}, cost_usd=1.0)
        for n in range(30)
    )
    for algorithm in (TPE, PER_DOLLAR):
        question = Question(space, algorithm, Direction.MINIMIZE, 30, history)
        assert any(ask(question).values["x"] is choice for choice in domain.choices)


def test_what_the_gaussian_process_needs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna_search, "find_spec", lambda _name: None)
    with pytest.raises(ValueError, match="GP needs torch and scipy, which the operator"):
        asked(Bayesian(3, Sampler.GP), a_history(12))


def test_the_gaussian_process_is_not_ranked_per_dollar() -> None:
    with pytest.raises(ValueError, match="perDollar ranks what TPE proposes"):
        Bayesian(sampler=Sampler.GP, per_dollar=True)
