"""The operator's record of a job's sizes: the speed of each, and increases that were undone.

It is in the status, so an operator that restarts does not measure or try anything again.
"""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.bounded import Count, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model


class Measured(Model):
    """The speed of worlds of one size: medians of at least three windows of 20 steps."""

    workers: Count = Field(description="The size of the world.")
    step_seconds: Amount = Field(description="Duration of a step, in seconds.")
    samples_per_second: Amount = Field(description="Samples trained per second.")
    compute: Amount | None = Field(
        None, description="Share of a step in which the workers computed."
    )
    data: Amount | None = Field(
        None, description="Share of a step in which the workers waited for data."
    )
    accelerator: ShortText | None = Field(
        None, description="The GPU model on which this was measured."
    )
    time: Time = Field(description="Time of the measurement; after six hours it no longer counts.")


class Rejected(Model):
    """An increase that was undone: it brought too little, or more workers than were used."""

    workers: Count = Field(description="This number of workers, and larger ones, are not tried.")
    efficiency: Amount | None = Field(
        None,
        description="Share of the added workers that appeared as added throughput; absent if "
        "steps are not counted.",
    )
    until: Time = Field(description="Time from which it may be tried again.")


class Resize(Model):
    """A change of the wanted size."""

    time: Time = Field(description="Time of the decision.")
    before: Count = Field(description="The wanted size before the decision.")
    after: Count = Field(description="The wanted size after the decision.")
    reason: ShortText = Field(description="The reason for the decision, as one CamelCase word.")


class ScalingStatus(Model):
    """The reason for the size of a job in mode Auto."""

    size: Count | None = Field(None, description="The number of workers that is justified.")
    replaces: Count | None = Field(
        None,
        description="The value of workers.replicas at the time of the decision; absent once the "
        "decision is written there.",
    )
    reason: ShortText | None = Field(
        None, description="The reason for the last decision, as one CamelCase word."
    )
    utilization: dict[str, Amount] | None = Field(
        None,
        description="Used share of each resource that has a target, by resource.",
        json_schema_extra={"maxProperties": 3},
    )
    more_since: Time | None = Field(
        None, description="Time since which more workers have been justified without interruption."
    )
    fewer_since: Time | None = Field(
        None, description="Time since which fewer workers have sufficed without interruption."
    )
    efficiency: dict[str, Amount] | None = Field(
        None,
        description="Throughput per worker at each measured size, relative to the smallest of "
        "these sizes.",
        json_schema_extra={"maxProperties": 16},
    )
    measured: Annotated[tuple[Measured, ...], Field(max_length=16)] | None = Field(
        None, description="Measured speeds of the sizes that were tried."
    )
    rejected: Annotated[tuple[Rejected, ...], Field(max_length=16)] | None = Field(
        None, description="Increases that were undone."
    )
    last: Resize | None = Field(None, description="The last change of the wanted size.")
    decisions: dict[str, Count] | None = Field(
        None,
        description="Number of decisions by reason; a decision to keep the size counts as well.",
        json_schema_extra={"maxProperties": 32},
    )
