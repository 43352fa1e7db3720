"""The search for good parameters: pure functions of a space, the trials so far, and a seed.

No clock, no I/O, and only random numbers that follow from the seed (`draws.py`). The code that
needs Optuna is in `process/`, which runs in its own process and is imported by no other module.
"""

from spotrun.search.algorithms import (
    Algorithm,
    Bayesian,
    Grid,
    Population,
    Random,
    Sampler,
    Sobol,
)
from spotrun.search.placeholders import (
    placeholders,
    replace_params,
    stages_with_params,
    with_params,
)
from spotrun.search.proposal import Nothing, Suggestion
from spotrun.search.pruning import (
    Asha,
    Hyperband,
    Judge,
    Median,
    NoPruning,
    Pruning,
    Stop,
)
from spotrun.search.space import (
    Categorical,
    Domain,
    Int,
    LogUniform,
    Parameter,
    Space,
    Uniform,
    Value,
    Values,
    When,
)
from spotrun.search.suggest import Question, needs_process, suggest
from spotrun.search.trial import Direction, Outcome, Report, Trial, without_repeats

__all__ = [
    "Algorithm",
    "Asha",
    "Bayesian",
    "Categorical",
    "Direction",
    "Domain",
    "Grid",
    "Hyperband",
    "Int",
    "Judge",
    "LogUniform",
    "Median",
    "NoPruning",
    "Nothing",
    "Outcome",
    "Parameter",
    "Population",
    "Pruning",
    "Question",
    "Random",
    "Report",
    "Sampler",
    "Sobol",
    "Space",
    "Stop",
    "Suggestion",
    "Trial",
    "Uniform",
    "Value",
    "Values",
    "When",
    "needs_process",
    "placeholders",
    "replace_params",
    "stages_with_params",
    "suggest",
    "with_params",
    "without_repeats",
]
