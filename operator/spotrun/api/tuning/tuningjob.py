"""The TuningJob: a search for the best parameters, each trial a TrainingJob."""

from typing import Annotated, Literal

from pydantic import Field

from spotrun.api.field_types.real import Real
from spotrun.api.field_types.text_values import PositiveDuration
from spotrun.api.meta import ObjectMeta
from spotrun.api.model import Model, Rule
from spotrun.api.spec.stop_when import Direction
from spotrun.api.spec.template import TemplateMetadata
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.api.tuning.limits import StopWhen, Trials, TuningBudget
from spotrun.api.tuning.parameters import Parameter, Parameters
from spotrun.api.tuning.population_rules import POPULATION_RULES
from spotrun.api.tuning.search import Pruning, Search
from spotrun.api.tuning.status import TuningJobStatus

MOST_NAME = 45
"""Names of trials are up to five characters longer, and TrainingJobs' names have at most 50."""


class Objective(Model):
    """The metric that the search improves."""

    metric: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="The name under which the script reports the metric: `run.log(val_loss=...)` "
        "or `report(val_loss=...)`."
    )
    direction: Direction = Field(
        Direction.MINIMIZE,
        description=f"Default Minimize: which direction is better. {Direction.explained()}",
    )
    goal: Real | None = Field(
        None,
        description="A value that is good enough: the search ends once a trial has reached it. "
        "Default: none.",
    )
    report_within: PositiveDuration = Field(
        PositiveDuration("10m"),
        description="Default 10m. The time after a trial's first step within which the metric "
        "should be reported. After that the condition MetricReported says what is reported "
        "instead.",
    )


class TrialTemplate(Model):
    """The TrainingJob that each trial is made from."""

    metadata: TemplateMetadata | None = Field(
        None, description="Labels and annotations of the TrainingJobs, e.g. team."
    )
    spec: TrainingJobSpec = Field(
        description="The spec of the TrainingJobs. In args, `$(params.NAME)` is replaced by the "
        "trial's value."
    )


_UNCHANGED = ("objective", "search", "parameters", "template")


class TuningJobSpec(Model):
    """The wanted search."""

    suspend: bool = Field(
        False,
        description="Default false. True begins no trial and suspends the running ones, each "
        "after a checkpoint if there is a place for one.",
    )
    objective: Objective = Field(description="The metric, its better direction and its goal.")
    search: Search = Field(description="The way to choose the values of the next trial.")
    parameters: Parameters = Field(description="The parameters, each with its range.")
    pruning: Pruning | None = Field(
        None,
        description="The way to stop trials early that fall behind. Default: no trial is stopped.",
    )
    trials: Trials = Field(description="The number of trials.")
    stop_when: StopWhen | None = Field(
        None,
        description="The condition under which the search ends because it no longer improves; for "
        "a value that is good enough use objective.goal. Default: the search continues up to its "
        "limits.",
    )
    budget: TuningBudget | None = Field(
        None, description="The maximum cost and duration of the search. Default: no limit."
    )
    template: TrialTemplate = Field(description="The TrainingJob that each trial is made from.")

    rules = (
        Rule(
            cel="!has(self.search.grid) || self.parameters.all(p, has(p.int) || "
            "has(p.categorical))",
            message="a grid over uniform or logUniform would have no end: list the values as "
            "categorical choices, give an int with a step, or search with random or sobol",
            holds=lambda s: s.search.grid is None or not any(p.is_continuous for p in s.parameters),
        ),
        Rule(
            cel="self.parameters.all(p, !has(p.when) || p.when.all(w, w.parameter != p.name && "
            "self.parameters.exists(q, q.name == w.parameter)))",
            message="when.parameter must name another parameter, which comes before this one in "
            "the list",
            holds=lambda spec: _conditions_are_known(spec.parameters),
        ),
        Rule(
            cel="!has(self.stopWhen) || self.stopWhen.noBetterTrials < self.trials.max",
            message="stopWhen.noBetterTrials must be below trials.max: otherwise it stops nothing",
            holds=lambda s: s.stop_when is None or s.stop_when.no_better_trials < s.trials.max,
        ),
        Rule(
            cel="!has(self.template.spec.managedBy)",
            message="template.spec.managedBy: trials are run by this operator; leave it out",
            holds=lambda s: s.template.spec.managed_by is None,
        ),
        *POPULATION_RULES,
    )


def _conditions_are_known(parameters: tuple[Parameter, ...]) -> bool:
    names = {one.name for one in parameters}
    return all(
        condition.parameter in names and condition.parameter != one.name
        for one in parameters
        for condition in one.when or ()
    )


def _never_changes(field: str) -> Rule:
    return Rule(
        cel=f"self.spec.{field} == oldSelf.spec.{field}",
        message=f"spec.{field} cannot change, because earlier and later trials could not be "
        "compared: create another TuningJob; trials, stopWhen, budget and suspend may change",
        holds=None,
    )


class TuningJob(Model):
    """A search for the best parameters within a budget; each trial is a TrainingJob."""

    api_version: Literal["spotrun.dev/v1alpha1"] = Field(description="The version of the API.")
    kind: Literal["TuningJob"] = Field(description="The kind of object.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels and annotations.")
    spec: TuningJobSpec = Field(description="The wanted search.")
    status: TuningJobStatus | None = Field(
        None, description="The observed state of the search; only the operator writes here."
    )

    rules = (
        Rule(
            cel=f"size(self.metadata.name) <= {MOST_NAME} && !self.metadata.name.contains('.')",
            message=f"metadata.name must be at most {MOST_NAME} characters and without dots, "
            "because the names of the trials' TrainingJobs begin with it",
            holds=lambda j: (
                len(j.metadata.name or "") <= MOST_NAME and "." not in (j.metadata.name or "")
            ),
        ),
        *map(_never_changes, _UNCHANGED),
        Rule(
            cel="has(self.spec.pruning) == has(oldSelf.spec.pruning) && "
            "(!has(self.spec.pruning) || self.spec.pruning == oldSelf.spec.pruning)",
            message="spec.pruning cannot change, because earlier and later trials could not be "
            "compared: create another TuningJob; trials, stopWhen, budget and suspend may change",
            holds=None,
        ),
    )
