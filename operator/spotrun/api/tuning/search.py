"""The ways to search, and to stop trials that will not win."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.bounded import Long
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice

_Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Trials = Annotated[int, Field(ge=1, le=1000)]
_Reduction = Annotated[int, Field(ge=2, le=10)]
_Step = Annotated[int, Field(ge=1, le=2**53)]
_SEED = "Default 0: the same seed and the same results lead to the same trials."


_GRACE_IS_SHORT = Rule(
    cel="self.graceSteps < self.maxSteps",
    message="graceSteps must be below maxSteps, the steps of a whole training",
    holds=lambda p: p.grace_steps < p.max_steps,
)


class Sampler(Choice):
    """The model of a Bayesian search; both are Optuna's."""

    TPE = "TPE", "tree-structured Parzen estimators: quick, and good with many choices"
    GP = "GP", "a Gaussian process: better with few, continuous parameters; slower"


class Grid(Model):
    """Every combination of choices, once, in the order of the parameters."""


class Random(Model):
    """Independent random values."""

    seed: _Seed = Field(0, description=_SEED)


class Sobol(Model):
    """A sequence that covers the space evenly, after any number of points."""

    seed: _Seed = Field(0, description=_SEED)


class Bayesian(Model):
    """A model of the ended trials proposes the next values."""

    seed: _Seed = Field(0, description=_SEED)
    sampler: Sampler = Field(
        Sampler.TPE, description=f"Default TPE: the model. {Sampler.explained()}"
    )
    startup_trials: _Trials = Field(
        10,
        description="Default 10. The number of trials from a Sobol sequence before the model is "
        "used.",
    )
    per_dollar: bool = Field(
        False,
        description="Default false. True ranks proposals by expected improvement per expected "
        "dollar, for trials whose cost depends on their parameters. It needs the sampler TPE.",
    )

    rules = (
        Rule(
            cel="!self.perDollar || self.sampler == 'TPE'",
            message="perDollar ranks what TPE proposes: choose the sampler TPE, or leave perDollar "
            "out",
            holds=lambda b: not b.per_dollar or b.sampler is Sampler.TPE,
        ),
    )


class Population(Model):
    """Population-based training: the worst continue from the checkpoints of the best."""

    size: Annotated[int, Field(ge=2, le=100)] = Field(
        description="The number of members. Each member has one trial per round, so a search of "
        "trials.max trials has trials.max / size rounds. A round begins when all trials of the "
        "round before have ended."
    )
    steps_per_round: _Step = Field(
        description="The steps of a round. `Run` ends a trial of round n after n times this "
        "number of steps, counted from the beginning of the training, even if the script gives a "
        "larger total."
    )
    seed: _Seed = Field(0, description=_SEED)


class Search(Model):
    """The way to choose the values of the next trial. Give exactly one."""

    grid: Grid | None = Field(None, description="Every combination, once; write `grid: {}`.")
    random: Random | None = Field(
        None, description="Independent random values: `random: {seed: 7}`."
    )
    sobol: Sobol | None = Field(None, description="A sequence that covers the space evenly.")
    bayesian: Bayesian | None = Field(
        None, description="A model of the earlier trials proposes the next values."
    )
    population: Population | None = Field(
        None,
        description="Population-based training: values change while the model trains. Write "
        "`population: {size: 8, ...}`.",
    )

    rules = (
        Rule(
            cel="[has(self.grid), has(self.random), has(self.sobol), has(self.bayesian), "
            "has(self.population)].exists_one(given, given)",
            message="search needs exactly one of grid, random, sobol, bayesian and population",
            holds=lambda s: len(s.manifest()) == 1,
        ),
    )


class Median(Model):
    """Stop a trial whose best value is worse than the median of the others at the same step."""

    startup_trials: _Trials = Field(
        5, description="Default 5. No trial is stopped before this many are complete."
    )
    warmup_steps: Long = Field(0, description="Default 0. No trial is stopped before this step.")


class Asha(Model):
    """Asynchronous successive halving: at each rung only the best share continues."""

    grace_steps: _Step = Field(description="The step of the first rung; every trial reaches it.")
    max_steps: _Step = Field(description="The steps of a whole training.")
    reduction: _Reduction = Field(
        3,
        description="Default 3. One of this number of trials passes a rung, and the next rung is "
        "at this number times the steps.",
    )

    rules = (_GRACE_IS_SHORT,)


class Hyperband(Model):
    """Several brackets of successive halving side by side; some stop trials earlier than others."""

    grace_steps: _Step = Field(
        description="The step of the first rung of the bracket that stops trials earliest."
    )
    max_steps: _Step = Field(description="The steps of a whole training.")
    reduction: _Reduction = Field(
        3, description="Default 3. One of this number of trials passes a rung of its bracket."
    )

    rules = (_GRACE_IS_SHORT,)


class Pruning(Model):
    """The way to stop trials early that fall behind, by step, not by time. Give exactly one."""

    median: Median | None = Field(
        None,
        description="Stop a trial whose best value is worse than the median of the others at the "
        "same step.",
    )
    asha: Asha | None = Field(
        None, description="Compare trials at rungs, without waiting for others."
    )
    hyperband: Hyperband | None = Field(
        None, description="Compare trials at rungs, in several brackets."
    )

    rules = (
        Rule(
            cel="[has(self.median), has(self.asha), has(self.hyperband)].exists_one(given, given)",
            message="pruning needs exactly one of median, asha and hyperband; without pruning "
            "leave it out",
            holds=lambda p: len(p.manifest()) == 1,
        ),
    )
