from spotrun.policies.tuning.codec import read_value
from spotrun.policies.tuning.space import algorithm_of, pruning_of, space_of
from spotrun.search import (
    Asha,
    Bayesian,
    Categorical,
    Grid,
    Hyperband,
    Int,
    LogUniform,
    Median,
    NoPruning,
    Parameter,
    Random,
    Sampler,
    Sobol,
    Space,
    Uniform,
    When,
)
from tests.support.api.search_cases import FULL_SEARCH
from tests.support.tuning.searches import SearchBuilder, a_search


def test_a_space_is_what_the_spec_says() -> None:
    assert space_of(SearchBuilder(FULL_SEARCH).snapshot().spec) == Space(
        (
            Parameter("optimizer", Categorical(("adam", "sgd"))),
            Parameter("lr", LogUniform(1e-5, 0.1)),
            Parameter("layers", Int(2, 8, 2)),
            Parameter("momentum", Uniform(0, 0.99), (When("optimizer", ("sgd",)),)),
        )
    )


def test_choices_that_read_as_numbers_are_numbers() -> None:
    assert [read_value(text) for text in ("16", "1e-4", "true", "adam")] == [16, 1e-4, True, "adam"]


def test_each_way_to_search_and_to_stop_has_its_settings() -> None:
    ways = {
        Grid(): {"grid": {}},
        Random(7): {"random": {"seed": 7}},
        Sobol(1): {"sobol": {"seed": 1}},
        Bayesian(2, Sampler.GP, 5): {"bayesian": {"seed": 2, "sampler": "GP", "startupTrials": 5}},
        Bayesian(per_dollar=True): {"bayesian": {"perDollar": True}},
    }
    choice = [{"name": "a", "categorical": {"choices": ["1", "2"]}}]
    for algorithm, search in ways.items():
        assert algorithm_of(a_search(search=search, parameters=choice).snapshot().spec) == algorithm
    rungs = {"graceSteps": 10, "maxSteps": 90, "reduction": 3}
    stops = {
        Median(4, 20): {"median": {"startupTrials": 4, "warmupSteps": 20}},
        Asha(10, 90, 3): {"asha": rungs},
        Hyperband(10, 90, 3): {"hyperband": rungs},
    }
    for pruning, spec in stops.items():
        assert pruning_of(a_search(pruning=spec).snapshot().spec) == pruning
    assert pruning_of(a_search().snapshot().spec) == NoPruning()
