"""The search of a spec, converted to the types of `spotrun.search`."""

import json
from dataclasses import replace

from spotrun.api.tuning import parameters as api
from spotrun.api.tuning.tuningjob import Objective, TuningJobSpec
from spotrun.api.tuning.words import TrialPhase
from spotrun.policies.tuning.codec import read_value
from spotrun.policies.tuning.state import Trial
from spotrun.search import (
    Algorithm,
    Asha,
    Bayesian,
    Categorical,
    Direction,
    Domain,
    Grid,
    Hyperband,
    Int,
    LogUniform,
    Median,
    NoPruning,
    Outcome,
    Parameter,
    Population,
    Pruning,
    Random,
    Sampler,
    Sobol,
    Space,
    Uniform,
    When,
    placeholders,
)
from spotrun.search import Trial as SearchTrial

_OUTCOMES = {
    TrialPhase.PENDING: Outcome.RUNNING,
    TrialPhase.RUNNING: Outcome.RUNNING,
    TrialPhase.STOPPING: Outcome.RUNNING,
    TrialPhase.SUCCEEDED: Outcome.COMPLETE,
    TrialPhase.PRUNED: Outcome.PRUNED,
    TrialPhase.STOPPED: Outcome.FAILED,  # its values were not judged
    TrialPhase.FAILED: Outcome.FAILED,
}


def space_of(spec: TuningJobSpec) -> Space:
    """Return the space of a search; raises ValueError with a sentence for users."""
    return Space(tuple(map(_parameter, spec.parameters)))


def check_placeholders(spec: TuningJobSpec) -> None:
    """Raise ValueError for `$(params.NAME)` in the template for which some trial has no value."""
    made = spec.template.spec
    stages = [one.manifest() for one in made.stages or ()]
    asked = placeholders(json.dumps([made.workers.template.manifest(), stages]))
    conditional = {str(one.name): bool(one.when) for one in spec.parameters}
    for name in sorted(asked):
        if name not in conditional:
            raise ValueError(
                f"the template asks for $(params.{name}), and no parameter has this name: correct "
                f"the name; the parameters are {', '.join(sorted(conditional))}"
            )
        if conditional[name]:
            raise ValueError(
                f"the template asks for $(params.{name}), which has a condition and is not in "
                "every trial: read it in the script with spotrun_trainer.params()"
            )


def algorithm_of(spec: TuningJobSpec) -> Algorithm:
    """Return the way to search."""
    chosen = spec.search
    if chosen.random is not None:
        return Random(chosen.random.seed)
    if chosen.sobol is not None:
        return Sobol(chosen.sobol.seed)
    if (members := chosen.population) is not None:
        rounds = max(spec.trials.max // members.size, 1)
        return Population(members.size, rounds, members.seed)
    if (model := chosen.bayesian) is not None:
        sampler = Sampler(model.sampler.value)
        return Bayesian(model.seed, sampler, model.startup_trials, model.per_dollar)
    return Grid()


def pruning_of(spec: TuningJobSpec) -> Pruning:
    """Return the way to stop trials early."""
    chosen = spec.pruning
    if chosen is None:
        return NoPruning()
    if (by := chosen.median) is not None:
        return Median(by.startup_trials, by.warmup_steps)
    if (rungs := chosen.asha) is not None:
        return Asha(rungs.grace_steps, rungs.max_steps, rungs.reduction)
    brackets = chosen.hyperband
    assert brackets is not None, "pruning has exactly one kind"
    return Hyperband(brackets.grace_steps, brackets.max_steps, brackets.reduction)


def direction_of(objective: Objective) -> Direction:
    """Return which direction is better."""
    return Direction(objective.direction.value)


def searched(trial: Trial) -> SearchTrial:
    """Return a trial as a search sees it."""
    ended = trial.is_complete or trial.phase is TrialPhase.PRUNED
    return replace(
        compared(trial),
        objective=trial.value if ended else None,
        parent=trial.parent,
        cost_usd=float(trial.usd.decimal) if trial.has_ended else None,
    )


def compared(trial: Trial) -> SearchTrial:
    """Return the part of a trial with which others are compared; a search uses more of it."""
    return SearchTrial(
        number=trial.number,
        values=trial.values,
        outcome=Outcome.COMPLETE if trial.is_complete else _OUTCOMES[trial.phase],
        reports=trial.course,
        rung=trial.rung or 0,
    )


def _parameter(given: api.Parameter) -> Parameter:
    conditions = (
        When(one.parameter, tuple(map(read_value, one.values))) for one in given.when or ()
    )
    return Parameter(str(given.name), _domain(given), tuple(conditions))


def _domain(given: api.Parameter) -> Domain:
    if given.uniform is not None:
        return Uniform(given.uniform.min.number, given.uniform.max.number)
    if given.log_uniform is not None:
        return LogUniform(given.log_uniform.min.number, given.log_uniform.max.number)
    if given.int is not None:
        return Int(given.int.min, given.int.max, given.int.step)
    assert given.categorical is not None, "a parameter has exactly one kind of range"
    return Categorical(tuple(map(read_value, given.categorical.choices)))
