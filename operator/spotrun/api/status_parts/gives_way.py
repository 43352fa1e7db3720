"""The room that a job gave to one of higher priority, in its status."""

from pydantic import Field

from spotrun.api.field_types.bounded import Count, LongText, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model


class GivesWay(Model):
    """A job of higher priority that has, or needs, the room of some of the workers."""

    to: LongText = Field(description="The job of higher priority, as namespace/name.")
    uid: ShortText = Field(description="The UID of that job.")
    workers: Count = Field(
        description="The most workers that this job keeps meanwhile; with 0 it is suspended."
    )
    since: Time = Field(description="The time at which it was decided.")
    until: Time | None = Field(
        None,
        description="The time at which the job got its room back. It keeps this room for a minute.",
    )
