"""The end of a training by a metric that it reports: a value to reach, or no improvement."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.real import Real
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice


class Direction(Choice):
    """Whether a lower or a higher value of the metric is better."""

    MINIMIZE = "Minimize", "lower is better, e.g. a loss"
    MAXIMIZE = "Maximize", "higher is better, e.g. an accuracy"


IMPROVEMENT_IS_POSITIVE = Rule(
    cel="!has(self.minImprovement) || !self.minImprovement.startsWith('-')",
    message="stopWhen.minImprovement must not be negative: give the smallest difference that "
    "counts, for either direction",
    holds=lambda s: not s.min_improvement.startswith("-"),
)
"""The rule of every `stopWhen`."""


class MetricStop(Model):
    """The metric that ends a training, by whichever of these limits is reached first."""

    metric: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="The name under which the script reports the metric: `run.log(val_loss=...)` "
        "or `report(val_loss=...)`."
    )
    direction: Direction = Field(
        Direction.MINIMIZE,
        description=f"Default Minimize: which direction is better. {Direction.explained()}",
    )
    goal: Real | None = Field(
        None, description="A value that is good enough to end. Default: none."
    )
    no_better_reports: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="End after this number of reported values in a row that are not better than "
        "the best one before them. Values less than 5 s apart may count as one; values of "
        "repeated steps count once; NaN counts as not better. Default: no limit.",
    )
    no_better_steps: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = Field(
        None,
        description="End when the newest value is this number of steps after the best one. "
        "Default: no limit.",
    )
    min_improvement: Real = Field(
        Real("0"),
        description='Default "0". A value counts as better only if the difference is more than '
        "this, in the unit of the metric.",
    )

    rules = (
        Rule(
            cel="has(self.goal) || has(self.noBetterReports) || has(self.noBetterSteps)",
            message="stopWhen needs a goal, noBetterReports or noBetterSteps: otherwise it stops "
            "nothing",
            holds=lambda s: (s.goal, s.no_better_reports, s.no_better_steps) != (None, None, None),
        ),
        IMPROVEMENT_IS_POSITIVE,
    )
