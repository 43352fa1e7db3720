"""The end of a training by a metric that it reports: a value to reach, or patience."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.real import Real
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice


class Direction(Choice):
    """The better direction of the metric."""

    MINIMIZE = "Minimize", "less is better, as of a loss"
    MAXIMIZE = "Maximize", "more is better, as of an accuracy"


IMPROVEMENT_IS_POSITIVE = Rule(
    cel="!has(self.minImprovement) || !self.minImprovement.startsWith('-')",
    message="stopWhen.minImprovement must not be negative: give the least difference that counts, "
    "whatever the direction",
    holds=lambda s: not s.min_improvement.startswith("-"),
)
"""The rule of every `stopWhen`."""


class MetricStop(Model):
    """The point from which more steps are not worth their money; the first that is reached."""

    metric: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="The name under which the script reports it: `run.log(val_loss=...)` or "
        "`report(val_loss=...)`."
    )
    direction: Direction = Field(
        Direction.MINIMIZE,
        description=f"Default Minimize: the better direction. {Direction.explained()}",
    )
    goal: Real | None = Field(
        None, description="A value that is good enough. Default: no value is."
    )
    no_better_reports: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="The number of reported values in a row without a better one than the best "
        "before them. Values that follow each other within 5 s may count as one; those of steps "
        "that are done again count once; NaN is one without. Default: any number.",
    )
    no_better_steps: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = Field(
        None,
        description="The number of steps from the best value to the newest one, if none between "
        "them was better. Default: any number.",
    )
    min_improvement: Real = Field(
        Real("0"),
        description='Default "0". A value is better only by more than this, in the metric\'s own '
        "unit.",
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
