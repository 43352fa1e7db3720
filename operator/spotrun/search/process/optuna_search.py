"""Optuna's samplers behind one function of a question."""

import math
import warnings
from collections.abc import Iterator
from importlib.util import find_spec

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from spotrun.search.algorithms import Bayesian, Sampler
from spotrun.search.draws import draw
from spotrun.search.proposal import Suggestion
from spotrun.search.space import Categorical, Int, LogUniform, Parameter, Space, Value
from spotrun.search.suggest import Question
from spotrun.search.trial import Direction, Outcome, Trial

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", module="optuna")  # users of a TuningJob do not call it


def ask(question: Question) -> Suggestion:
    """Return the values that a sampler proposes; the same ones for the same question.

    Raises ValueError with a message for users.
    """
    algorithm = question.algorithm
    assert isinstance(algorithm, Bayesian), "`suggest` answers all other algorithms"
    seed = int(draw(algorithm.seed, "optuna", question.number) * 2**32)
    study = optuna.create_study(
        sampler=_sampler(question, algorithm, seed),
        direction="minimize" if question.direction is Direction.MINIMIZE else "maximize",
    )
    study.add_trials(_known(question))
    trial = study.ask()
    space = question.space
    return Suggestion(space.fill(lambda one: _suggested(trial, one)))


def _sampler(question: Question, algorithm: Bayesian, seed: int) -> BaseSampler:
    if algorithm.sampler is Sampler.GP:
        missing = [name for name in ("torch", "scipy") if find_spec(name) is None]
        if missing:
            raise ValueError(
                f"the sampler GP needs {' and '.join(missing)}, which the operator's image does "
                "not have: choose TPE, or build an image with them"
            )
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=0)
    if algorithm.per_dollar:
        from spotrun.search.process.tpe_per_dollar import TpePerDollar  # noqa: PLC0415 - seldom

        return TpePerDollar(question, seed)
    return TPESampler(n_startup_trials=0, seed=seed)


def _known(question: Question) -> Iterator[FrozenTrial]:
    distributions = {one.name: _distribution(one) for one in question.space.parameters}
    for trial in question.history:
        state, objective = _state(trial)
        if state is None:
            continue
        known = {name: value for name, value in trial.values.items() if name in distributions}
        yield create_trial(
            state=state,
            value=objective,
            params=_in_choices(question.space, known),
            distributions={name: distributions[name] for name in known},
            intermediate_values=_last_report(trial) if state is TrialState.PRUNED else None,
        )


def _state(trial: Trial) -> tuple[TrialState | None, float | None]:
    """Return a trial's state for Optuna: for a trial that ended in NaN, that its values are bad."""
    if trial.outcome is Outcome.RUNNING:
        return TrialState.RUNNING, None
    last = trial.reports[-1].value if trial.reports else trial.objective
    if last is not None and not math.isfinite(last):
        return TrialState.PRUNED, None
    if trial.outcome is Outcome.COMPLETE and trial.objective is not None:
        return TrialState.COMPLETE, trial.objective
    return (TrialState.PRUNED if trial.outcome is Outcome.PRUNED else None), None


def _last_report(trial: Trial) -> dict[int, float]:
    if not trial.reports or not math.isfinite(trial.reports[-1].value):
        return {}
    return {trial.reports[-1].step: trial.reports[-1].value}


def _distribution(parameter: Parameter) -> BaseDistribution:
    domain = parameter.domain
    if isinstance(domain, Categorical):
        # By index, because Optuna does not distinguish 1 from true.
        return CategoricalDistribution(range(domain.count))
    if isinstance(domain, Int):
        high = domain.low + (domain.count - 1) * domain.step
        return IntDistribution(domain.low, high, step=domain.step)
    return FloatDistribution(domain.low, domain.high, log=isinstance(domain, LogUniform))


def _in_choices(space: Space, values: dict[str, Value]) -> dict[str, Value]:
    categorical = {
        one.name: one.domain for one in space.parameters if isinstance(one.domain, Categorical)
    }
    return {
        name: categorical[name].index(value) if name in categorical else value
        for name, value in values.items()
    }


def _suggested(trial: optuna.Trial, parameter: Parameter) -> Value:
    domain, name = parameter.domain, parameter.name
    if isinstance(domain, Categorical):
        place = trial.suggest_categorical(name, range(domain.count))
        return domain.choices[place]
    if isinstance(domain, Int):
        high = domain.low + (domain.count - 1) * domain.step
        return trial.suggest_int(name, domain.low, high, step=domain.step)
    is_log = isinstance(domain, LogUniform)
    return trial.suggest_float(name, domain.low, domain.high, log=is_log)
