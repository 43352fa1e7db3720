"""The stage of a training, in a job's status."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.bounded import Count, Long, LongText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model
from spotrun.api.status_parts.metric_course import MetricCourse


class StageStatus(Model):
    """The stage that trains, or that begins when its world is entered."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="The name of the stage in spec.stages."
    )
    index: Count = Field(description="The index of the stage in spec.stages, from 0.")
    since_step: Long = Field(description="The step of the checkpoint from which the stage began.")
    since: Time = Field(description="Time at which the stage began.")
    stop_when: MetricCourse | None = Field(
        None, description="The best and newest values of the metric of the stage's stopWhen."
    )
    ends_since: Time | None = Field(
        None, description="Time of the decision to end the stage; its last step is then saved."
    )
    why: LongText | None = Field(None, description="Why the stage ends.")
