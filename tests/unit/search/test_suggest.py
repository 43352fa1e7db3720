from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.search import (
    Algorithm,
    Bayesian,
    Categorical,
    Direction,
    Grid,
    Nothing,
    Outcome,
    Parameter,
    Population,
    Question,
    Random,
    Sobol,
    Space,
    Suggestion,
    needs_process,
    suggest,
)
from tests.support.search.spaces import SPACES, TRAINING, a_history


def ask(algorithm: Algorithm, number: int, space: Space = TRAINING) -> Suggestion | Nothing:
    return suggest(Question(space, algorithm, Direction.MINIMIZE, number))


@pytest.mark.parametrize("algorithm", [Random(3), Sobol(3), Bayesian(3), Population(8, 2, 3)])
def test_the_same_question_has_the_same_answer(algorithm: Algorithm) -> None:
    assert ask(algorithm, 4) == ask(algorithm, 4)
    assert ask(algorithm, 4) != ask(algorithm, 5)
    assert ask(algorithm, 4) != ask(replace(algorithm, seed=4), 4)  # type: ignore[arg-type]


def test_draws_are_those_of_earlier_releases() -> None:
    found = ask(Random(7), 0)
    assert isinstance(found, Suggestion)
    assert found.values["layers"] == 10
    assert found.values["lr"] == pytest.approx(0.0014909309880435711)


@given(SPACES, st.sampled_from([Random(1), Sobol(1)]), st.integers(0, 1000))
def test_values_are_of_the_space(space: Space, algorithm: Algorithm, number: int) -> None:
    found = ask(algorithm, number, space)
    assert isinstance(found, Suggestion)
    assert space.fill(lambda parameter: found.values[parameter.name]) == found.values


def test_a_grid_ends() -> None:
    space = Space((Parameter("a", Categorical(("x", "y"))),))
    assert [ask(Grid(), number, space) for number in range(3)] == [
        Suggestion({"a": "x"}),
        Suggestion({"a": "y"}),
        Nothing("all 2 points of the grid were tried", is_final=True),
    ]


def test_a_model_is_asked_once_enough_trials_have_ended() -> None:
    history = a_history(12)
    question = Question(TRAINING, Bayesian(startup_trials=10), Direction.MINIMIZE, 12, history)
    assert needs_process(question)
    running = tuple(replace(one, outcome=Outcome.RUNNING, objective=None) for one in history[:3])
    early = replace(question, history=(*running, *history[3:]))
    assert not needs_process(early)
    assert suggest(early) == ask(Sobol(0), 12)
    assert not needs_process(replace(question, algorithm=Random()))
