"""Kubernetes' own object metadata and conditions."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from spotrun.api.field_types.bounded import Count, DnsName, Long
from spotrun.api.field_types.text_values import Text, Time
from spotrun.api.model import Model


class ObjectMeta(Model):
    """The metadata of every object; fields that are not read here are carried along."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    name: DnsName | None = Field(None, description="Unique in its namespace.")
    generate_name: str | None = Field(None, description="A prefix for a name made by the server.")
    namespace: str | None = Field(None, description="The namespace.")
    labels: dict[str, str] | None = Field(None, description="Labels.")
    annotations: dict[str, str] | None = Field(None, description="Annotations.")
    uid: str | None = Field(None, description="Unique in time and space.")
    resource_version: str | None = Field(None, description="Changes with every write.")
    generation: Count | None = Field(None, description="Changes with every write to the spec.")
    creation_timestamp: str | None = Field(None, description="When the server stored it first.")
    deletion_timestamp: str | None = Field(None, description="When it was asked to go.")


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ReasonText(Text):
    """A reason for machines: one word in CamelCase."""

    __slots__ = ()
    pattern = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
    max_length = 1024
    hint = "must be one word in CamelCase"


class Condition(Model):
    """One aspect of an object's state."""

    type: Annotated[ReasonText, Field(max_length=316)] = Field(
        description="The aspect, e.g. Running or WithinBudget."
    )
    status: ConditionStatus = Field(description="Whether it holds: True, False or Unknown.")
    observed_generation: Long | None = Field(
        None, description="The metadata.generation that this was concluded from."
    )
    last_transition_time: Time = Field(description="Time of the last change of status.")
    reason: ReasonText = Field(
        description="The cause of the phase, in one CamelCase word for machines."
    )
    message: Annotated[str, Field(max_length=32768)] = Field(
        description="Why, in words for people."
    )
