"""The stage of a training, in a job's status."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.bounded import Count, Long, LongText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model
from spotrun.api.status_parts.metric_course import MetricCourse


class StageStatus(Model):
    """The stage that trains, or begins as soon as the world of this stage is entered."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="The name of the stage in spec.stages."
    )
    index: Count = Field(description="Its place there, from 0 on.")
    since_step: Long = Field(description="The step of the checkpoint that it began from.")
    since: Time = Field(description="The time at which it was begun.")
    stop_when: MetricCourse | None = Field(
        None, description="The course of the metric of its stopWhen."
    )
    ends_since: Time | None = Field(
        None, description="The time at which its end was decided; its last step is saved then."
    )
    why: LongText | None = Field(None, description="Why it ends.")
