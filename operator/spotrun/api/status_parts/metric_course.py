"""The course of a metric that decides about an end, in a job's status."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import Measured
from spotrun.api.field_types.bounded import Count, Long, LongText, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model


class MetricCourse(Model):
    """The values of the metric of a stopWhen that the decision depends on."""

    metric: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="The name of the metric."
    )
    best: Measured | None = Field(
        None, description="The best value so far; absent if all values were NaN or infinite."
    )
    best_step: Long | None = Field(
        None,
        description="The step of the best value; without a best value, the step of the first one.",
    )
    step: Long | None = Field(None, description="The step of the newest value that was compared.")
    no_better_reports: Count = Field(
        description="The number of values since the best one, none of which was better."
    )
    decided_at: Time | None = Field(
        None,
        description="Time of the decision to end. The decision is final: the training ends with a "
        "checkpoint of the next step.",
    )
    reason: ShortText | None = Field(
        None, description="The reason for the decision: GoalReached or NoImprovement."
    )
    message: LongText | None = Field(None, description="The reason for the decision, in words.")
