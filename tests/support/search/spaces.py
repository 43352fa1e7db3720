"""Spaces, trials and histories for tests of searches."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from spotrun.search import (
    Categorical,
    Direction,
    Domain,
    Int,
    LogUniform,
    Outcome,
    Parameter,
    Question,
    Random,
    Report,
    Space,
    Suggestion,
    Trial,
    Uniform,
    When,
    suggest,
)

_VALUES = st.integers(-3, 3) | st.sampled_from(["a", "b", "c"]) | st.booleans()
_CHOICES = st.lists(_VALUES, min_size=1, max_size=4, unique_by=lambda one: (type(one), one))
DOMAINS: st.SearchStrategy[Domain] = st.one_of(
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda r: Uniform(r[0], sum(r))),
    st.tuples(st.floats(1e-9, 1e3), st.floats(1.001, 1e6)).map(
        lambda r: LogUniform(r[0], r[0] * r[1])
    ),
    st.tuples(st.integers(-100, 100), st.integers(1, 1000), st.integers(1, 7)).map(
        lambda r: Int(r[0], r[0] + r[1], r[2])
    ),
    _CHOICES.map(lambda some: Categorical(tuple(some))),
)


@st.composite
def _spaces(draw: st.DrawFn) -> Space:
    parameters: list[Parameter] = []
    for place, domain in enumerate(draw(st.lists(DOMAINS, min_size=1, max_size=5))):
        choices = [one for one in parameters if isinstance(one.domain, Categorical)]
        when: tuple[When, ...] = ()
        if choices:
            asked = draw(st.sampled_from(choices))
            assert isinstance(asked.domain, Categorical)
            when = draw(st.sampled_from([(), (When(asked.name, asked.domain.choices[:1]),)]))
        parameters.append(Parameter(f"p{place}", domain, when))
    return Space(tuple(parameters))


SPACES = _spaces()

TRAINING = Space(
    (
        Parameter("lr", LogUniform(1e-5, 1e-1)),
        Parameter("layers", Int(2, 24, 2)),
        Parameter("optimizer", Categorical(("sgd", "adam"))),
        Parameter("momentum", Uniform(0.0, 0.99), (When("optimizer", ("sgd",)),)),
    )
)


def a_trial(number: int, *values: float, **changes: object) -> Trial:
    """A complete trial with reports at 1, 2, 3, ... hundred steps."""
    reports = tuple(Report(100 * (at + 1), value) for at, value in enumerate(values))
    trial = Trial(number, {}, Outcome.COMPLETE, values[-1] if values else None, reports)
    return replace(trial, **changes)  # type: ignore[arg-type]


def a_history(number: int, space: Space = TRAINING, seed: int = 5) -> tuple[Trial, ...]:
    """Complete trials whose loss is that of the distance of their learning rate to 0.001."""
    trials = []
    for place in range(number):
        found = suggest(Question(space, Random(seed), Direction.MINIMIZE, place))
        assert isinstance(found, Suggestion)
        position = space.parameters[0].domain.position(found.values["lr"])
        layers = float(found.values["layers"])
        trials.append(
            a_trial(place, 1.0, abs(position - 0.5), values=found.values, cost_usd=0.1 * layers)
        )
    return tuple(trials)


def numbers_of(trials: Sequence[Trial]) -> list[int]:
    """Return the numbers of trials."""
    return [trial.number for trial in trials]
