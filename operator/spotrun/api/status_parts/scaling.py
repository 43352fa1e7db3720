"""The operator's memory of a job's sizes: what each brought, and what was tried in vain.

It is in the status, so an operator that restarts measures nothing twice and tries nothing again.
"""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.bounded import Count, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model


class Measured(Model):
    """The speed of a world of some size: medians of at least three windows of 20 steps."""

    workers: Count = Field(description="The size of the world.")
    step_seconds: Amount = Field(description="Duration of a step, in seconds.")
    samples_per_second: Amount = Field(description="Samples trained per second.")
    compute: Amount | None = Field(
        None, description="The share of a step in which the workers computed."
    )
    data: Amount | None = Field(
        None, description="The share of a step in which they waited for data."
    )
    accelerator: ShortText | None = Field(None, description="The GPU model it was measured on.")
    time: Time = Field(description="Time of the measurement; after six hours it counts no more.")


class Rejected(Model):
    """A growth that was taken back: it brought too little, or more than was used."""

    workers: Count = Field(description="Sizes from this one on are not tried.")
    efficiency: Amount | None = Field(
        None,
        description="The share of the added workers that showed up as added throughput; absent "
        "where no steps are counted.",
    )
    until: Time = Field(description="Time at which it may be tried again.")


class Resize(Model):
    """A change of the wanted size."""

    time: Time = Field(description="Time of the decision.")
    before: Count = Field(description="The size wanted until then.")
    after: Count = Field(description="The size wanted from then on.")
    reason: ShortText = Field(description="Why, in one CamelCase word.")


class ScalingStatus(Model):
    """The reason for the size of a job in mode Auto."""

    size: Count | None = Field(None, description="The number of workers that is justified.")
    replaces: Count | None = Field(
        None,
        description="The value of workers.replicas when it was decided, until the decision stands "
        "there.",
    )
    reason: ShortText | None = Field(
        None, description="Why, in one CamelCase word, as was decided last."
    )
    utilization: dict[str, Amount] | None = Field(
        None,
        description="Used shares of the resources that have a target, by resource.",
        json_schema_extra={"maxProperties": 3},
    )
    more_since: Time | None = Field(
        None, description="Since when more workers are justified without a break."
    )
    fewer_since: Time | None = Field(
        None, description="Since when fewer workers suffice without a break."
    )
    efficiency: dict[str, Amount] | None = Field(
        None,
        description="Throughput per worker at each measured size, against the smallest of them.",
        json_schema_extra={"maxProperties": 16},
    )
    measured: Annotated[tuple[Measured, ...], Field(max_length=16)] | None = Field(
        None, description="Measured speed of the sizes that were tried."
    )
    rejected: Annotated[tuple[Rejected, ...], Field(max_length=16)] | None = Field(
        None, description="Growths that were taken back."
    )
    last: Resize | None = Field(None, description="The last change.")
    decisions: dict[str, Count] | None = Field(
        None,
        description="Number of decisions by reason; to keep the size is one.",
        json_schema_extra={"maxProperties": 32},
    )
