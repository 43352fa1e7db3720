"""The course of a metric that decides about an end, in a job's status."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import Measured
from spotrun.api.field_types.bounded import Count, Long, LongText, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model


class MetricCourse(Model):
    """The course of the metric of a stopWhen, as far as the decision depends on it."""

    metric: Annotated[str, Field(min_length=1, max_length=64)] = Field(description="The metric.")
    best: Measured | None = Field(
        None, description="The best value so far; absent while all were NaN or infinite."
    )
    best_step: Long | None = Field(
        None, description="The step of the best value, or of the first one if there is no best."
    )
    step: Long | None = Field(None, description="The step of the newest value that was judged.")
    no_better_reports: Count = Field(
        description="The number of values since the best one that were not better."
    )
    decided_at: Time | None = Field(
        None,
        description="The time at which the end was decided. It stays, and training ends with a "
        "checkpoint of the next step.",
    )
    reason: ShortText | None = Field(
        None, description="Why it was decided: GoalReached or NoImprovement."
    )
    message: LongText | None = Field(None, description="The same in words.")
