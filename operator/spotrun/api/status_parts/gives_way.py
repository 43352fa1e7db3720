"""The room that a job gave to one of higher priority, in its status."""

from pydantic import Field

from spotrun.api.field_types.bounded import Count, LongText, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model


class GivesWay(Model):
    """A job of higher priority that uses, or needs, the nodes of some of the workers."""

    to: LongText = Field(description="The job of higher priority, as namespace/name.")
    uid: ShortText = Field(description="The UID of that job.")
    workers: Count = Field(
        description="The most workers that this job keeps meanwhile; with 0 it is suspended."
    )
    since: Time = Field(description="Time of the decision.")
    until: Time | None = Field(
        None,
        description="Time at which this job got its nodes back; for a minute it does not give way "
        "again.",
    )
