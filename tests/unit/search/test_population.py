from dataclasses import replace

import pytest

from spotrun.search import (
    Direction,
    Nothing,
    Outcome,
    Population,
    Question,
    Suggestion,
    Trial,
    suggest,
)
from tests.support.search.spaces import TRAINING, a_trial

POPULATION = Population(size=8, rounds=3, seed=2, resampled=0.0)


def ask(number: int, *history: Trial, population: Population = POPULATION) -> Suggestion | Nothing:
    return suggest(Question(TRAINING, population, Direction.MINIMIZE, number, history))


def first_round(**changes: dict[str, object]) -> list[Trial]:
    """Trials 0 to 7, the later the better; `changes` by their numbers, as n3=..."""
    trials = []
    for number in range(8):
        found = ask(number)
        assert isinstance(found, Suggestion)
        assert found.parent is None
        trial = a_trial(number, 8.0 - number, values=found.values)
        trials.append(replace(trial, **changes.get(f"n{number}", {})))  # type: ignore[arg-type]
    return trials


def test_members_in_the_middle_go_on_with_their_own_values() -> None:
    trials = first_round()
    for member in range(2, 8):
        assert ask(8 + member, *trials) == Suggestion(trials[member].values, member)


def test_the_worst_go_on_from_the_best_with_other_values() -> None:
    trials = first_round()
    for member in (0, 1):
        found = ask(8 + member, *trials)
        assert isinstance(found, Suggestion)
        assert found.parent in (6, 7)
        parent = trials[found.parent].values
        assert found.values != parent
        assert found.values["optimizer"] == parent["optimizer"]
        moved = float(found.values["lr"]) / float(parent["lr"])
        assert moved == pytest.approx(0.8) or moved == pytest.approx(1.2)
        assert ask(8 + member, *reversed(trials)) == found, "the order in which they end is nothing"


def test_some_values_are_drawn_anew() -> None:
    trials = first_round()
    found = ask(8, *trials, population=replace(POPULATION, resampled=1.0))
    assert isinstance(found, Suggestion)
    assert found.parent is not None
    moved = float(found.values["lr"]) / float(trials[found.parent].values["lr"])
    assert moved not in (pytest.approx(0.8), pytest.approx(1.2))


def test_a_member_that_failed_goes_on_from_one_of_the_best() -> None:
    trials = first_round(n7={"outcome": Outcome.FAILED, "objective": None})
    found = ask(8 + 7, *trials)
    assert isinstance(found, Suggestion)
    assert found.parent in (5, 6)


@pytest.mark.parametrize(
    ("number", "history", "expected"),
    [
        (
            8,
            first_round(n4={"outcome": Outcome.RUNNING})[:7],
            Nothing(
                "round 2 of the population begins when all of the one before have ended: 2 of 8 "
                "have not"
            ),
        ),
        (24, first_round(), Nothing("all 3 rounds of the population are done", is_final=True)),
        (
            8,
            [replace(one, outcome=Outcome.FAILED) for one in first_round()],
            Nothing("all members of the population have failed", is_final=True),
        ),
    ],
)
def test_there_is_no_next_member(number: int, history: list[Trial], expected: Nothing) -> None:
    assert ask(number, *history) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"size": 1, "rounds": 2}, "learns nothing"),
        ({"size": 4, "rounds": 0}, "learns nothing"),
        ({"size": 4, "rounds": 2, "replaced": 0.6}, "at most 0.5"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Population(**given)  # type: ignore[arg-type]
