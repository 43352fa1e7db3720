"""The next trial of a search: a function of the space, the history and a seed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

from spotrun.search.algorithms import Algorithm, Bayesian, Grid, Population, Random, Sobol
from spotrun.search.draws import draw
from spotrun.search.population import next_member
from spotrun.search.proposal import Nothing, Suggestion
from spotrun.search.sobol import sobol
from spotrun.search.space import Space
from spotrun.search.trial import Direction, Outcome, Trial


@dataclass(frozen=True, slots=True)
class Question:
    """A request for the values of a trial that is about to begin."""

    space: Space
    algorithm: Algorithm
    direction: Direction
    number: int  # of the trial: the history has all trials that began before
    history: tuple[Trial, ...] = ()
    budget_left: float = 1.0
    """The share of the budget that is left, from 0 to 1. The less is left, the less the cost of a
    trial counts if trials are ranked per dollar."""


def needs_process(question: Question) -> bool:
    """Whether the answer needs Optuna, in its own process: `spotrun.search.process`."""
    algorithm = question.algorithm
    return isinstance(algorithm, Bayesian) and num_complete(question) >= algorithm.startup_trials


def suggest(question: Question) -> Suggestion | Nothing:
    """Return the values of the next trial, or why there are none now.

    The same question has the same answer. Raises ValueError with a message for users.
    """
    assert not needs_process(question), "spotrun.search.process must answer this question"
    space, algorithm, number = question.space, question.algorithm, question.number
    if isinstance(algorithm, Grid):
        return _of_grid(space, number)
    if isinstance(algorithm, Population):
        return next_member(space, algorithm, question.direction, question.history, number)
    return Suggestion(space.at(_positions(space, algorithm, number)))


def num_complete(question: Question) -> int:
    """Return the number of trials that a model can learn from."""
    ended = (Outcome.COMPLETE, Outcome.PRUNED)
    return sum(trial.outcome in ended and trial.objective is not None for trial in question.history)


def _of_grid(space: Space, number: int) -> Suggestion | Nothing:
    size = space.grid_size()
    values = next(islice(space.grid(), number, None), None)
    if values is None:
        return Nothing(f"all {size} points of the grid were tried", is_final=True)
    return Suggestion(values)


def _positions(
    space: Space, algorithm: Random | Sobol | Bayesian, number: int
) -> Callable[[str], float]:
    if isinstance(algorithm, Random):
        return partial(draw, algorithm.seed, number)
    names = [parameter.name for parameter in space.parameters]
    point = sobol(number, len(names), algorithm.seed)
    return dict(zip(names, point, strict=True)).__getitem__
