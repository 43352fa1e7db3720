from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.search import Categorical, Domain, Int, LogUniform, Parameter, Space, Uniform, When
from tests.support.search.spaces import DOMAINS, SPACES

POSITIONS = st.floats(0, 1, exclude_max=True)


def holds(domain: Domain, value: Any) -> bool:
    if isinstance(domain, Categorical):
        return any(value is choice for choice in domain.choices)
    is_whole = isinstance(value, int) or not isinstance(domain, Int)
    return is_whole and domain.low <= value <= domain.high


@given(DOMAINS, POSITIONS)
def test_each_position_is_a_value_within_the_bounds(domain: Domain, position: float) -> None:
    assert holds(domain, domain.at(position))


@given(DOMAINS, POSITIONS, st.sampled_from([0.8, 1.2]))
def test_a_value_nearby_is_within_the_bounds(domain: Domain, position: float, by: float) -> None:
    assert holds(domain, domain.near(domain.at(position), by))


@given(DOMAINS, POSITIONS)
def test_a_value_is_found_where_its_position_says(domain: Domain, position: float) -> None:
    value = domain.at(position)
    again = domain.at(min(domain.position(value), 1 - 2**-53))
    exact = isinstance(domain, Int | Categorical)
    assert again == (value if exact else pytest.approx(value, rel=1e-6, abs=1e-300))


def test_a_whole_number_moves_at_least_a_step() -> None:
    layers = Int(2, 10, 2)
    assert [layers.near(2, 0.8), layers.near(2, 1.2), layers.near(10, 1.2)] == [2, 4, 10]


@given(SPACES, st.data())
def test_parameters_exist_where_their_conditions_hold(space: Space, data: st.DataObject) -> None:
    values = space.at(lambda name: data.draw(POSITIONS, label=name))
    for parameter in space.parameters:
        expected = all(
            one.parameter in values and values[one.parameter] in one.values
            for one in parameter.when
        )
        assert (parameter.name in values) is expected


OPTIMIZER = Parameter("optimizer", Categorical(("sgd", "adam")))
MOMENTUM = Parameter("momentum", Categorical((0.0, 0.9)), (When("optimizer", ("sgd",)),))


def test_a_grid_has_each_combination_once() -> None:
    space = Space((OPTIMIZER, MOMENTUM, Parameter("layers", Int(2, 6, 2))))
    points = list(space.grid())
    assert len(points) == space.grid_size() == 9  # adam has no momentum
    assert points[0] == {"optimizer": "sgd", "momentum": 0.0, "layers": 2}
    assert points[-1] == {"optimizer": "adam", "layers": 6}
    assert len({tuple(point.items()) for point in points}) == 9


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Uniform(1, 1), "from 1 to 1 is empty: give a min below the max"),
        (lambda: Uniform(0, float("inf")), "is infinite"),
        (lambda: LogUniform(0, 1), "begins at 0: give a min above 0"),
        (lambda: Int(1, 4, 0), "a step of 0"),
        (lambda: Categorical(()), "no choices"),
        (lambda: Categorical(("a", "a")), "the same choice twice"),
        (lambda: Space(()), "0 parameters: give 1 to 20"),
        (lambda: Space((OPTIMIZER, OPTIMIZER)), "optimizer is there twice"),
        (lambda: Space((MOMENTUM, OPTIMIZER)), "no parameter of this name comes before it"),
        (
            lambda: Space((OPTIMIZER, Parameter("x", Int(1, 2), (When("optimizer", ("lion",)),)))),
            "'lion', which is none of its choices: 'sgd', 'adam'",
        ),
        (
            lambda: Space((Parameter("lr", LogUniform(1e-5, 1)),)).grid_size(),
            "cannot try all values of lr",
        ),
        (
            lambda: Space((Parameter("a", Int(1, 200)), Parameter("b", Int(1, 200)))).grid_size(),
            "more than 10000 points",
        ),
    ],
)
def test_what_is_wrong_is_said(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_choice_of_one_is_none_of_true() -> None:
    choice = Categorical((1, True, "1"))
    assert [choice.index(value) for value in (1, True, "1")] == [0, 1, 2]
    assert choice.index(1.0) == 0
