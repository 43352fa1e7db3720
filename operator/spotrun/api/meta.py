"""Kubernetes' own object metadata and conditions."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from spotrun.api.field_types.bounded import Count, DnsName, Long
from spotrun.api.field_types.text_values import Text, Time
from spotrun.api.model import Model


class ObjectMeta(Model):
    """The metadata of every object; fields that are not used here are kept as they are."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    name: DnsName | None = Field(None, description="Unique in its namespace.")
    generate_name: str | None = Field(
        None, description="A prefix from which the server makes a unique name."
    )
    namespace: str | None = Field(None, description="The namespace.")
    labels: dict[str, str] | None = Field(None, description="Labels.")
    annotations: dict[str, str] | None = Field(None, description="Annotations.")
    uid: str | None = Field(None, description="Unique in time and space.")
    resource_version: str | None = Field(None, description="Changes with every write.")
    generation: Count | None = Field(None, description="Changes with every write to the spec.")
    creation_timestamp: str | None = Field(
        None, description="Time at which the server first stored it."
    )
    deletion_timestamp: str | None = Field(
        None, description="Time at which its deletion was requested."
    )


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
        description="The type of the condition, e.g. Running or WithinBudget."
    )
    status: ConditionStatus = Field(description="Whether the condition is True, False or Unknown.")
    observed_generation: Long | None = Field(
        None, description="The metadata.generation for which the condition was determined."
    )
    last_transition_time: Time = Field(description="Time of the last change of the status.")
    reason: ReasonText = Field(
        description="The reason for the status, as one CamelCase word for programs."
    )
    message: Annotated[str, Field(max_length=32768)] = Field(
        description="The reason for the status, in words for people."
    )
