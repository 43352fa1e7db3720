"""The newest step that workers hold in their local tier, in a job's status."""

from pydantic import Field

from spotrun.api.field_types.bounded import Long
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model


class LocalCheckpoint(Model):
    """The newest step whose parts, and their copies, are all in the workers' local tier."""

    step: Long = Field(description="The step that it contains.")
    time: Time = Field(description="Time at which it was reported to the operator.")
