"""The cost of checkpoints in an object store, in a job's status."""

from pydantic import Field

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.bounded import Count, Long, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model
from spotrun.api.names import Pricing


class StorageCost(Model):
    """The cost of the job's checkpoints in their object store, in USD."""

    usd: Amount | None = Field(
        None,
        description="Total cost of the checkpoint storage so far, in USD; the budget includes it.",
    )
    stored_usd: Amount | None = Field(None, description="The part for stored bytes, in USD.")
    requests_usd: Amount | None = Field(None, description="The part for requests, in USD.")
    transfer_usd: Amount | None = Field(
        None, description="The part for traffic between regions, in USD."
    )
    stored_bytes: Long | None = Field(
        None, description="Bytes stored below the job's prefix now, as the trainer counts them."
    )
    usd_per_month: Amount | None = Field(
        None,
        description="Cost of these bytes per month, in USD. It continues after the job's end, "
        "until somebody deletes them.",
    )
    pricing: Pricing | None = Field(
        None,
        description="Whether the price of the store is known. Partial: no price table has it, and "
        "the affected costs are in no sum.",
    )


class StorageSums(Model):
    """Exact sums of the storage cost, and the time up to which they count."""

    stored_usd: Amount | None = Field(None, description="Cost of stored bytes, in USD.")
    requests_usd: Amount | None = Field(None, description="Cost of requests, in USD.")
    transfer_usd: Amount | None = Field(
        None, description="Cost of traffic between regions, in USD."
    )
    world_number: Count | None = Field(
        None, description="The world to which puts, gets and movedBytes belong."
    )
    puts: Long | None = Field(None, description="Write and list requests in that world.")
    gets: Long | None = Field(None, description="Other requests in that world.")
    moved_bytes: Long | None = Field(
        None, description="Bytes moved to or from another region in that world."
    )
    stored_bytes: Long | None = Field(None, description="Number of bytes that are stored.")
    checkpoints: Long | None = Field(
        None, description="Number of complete checkpoints in these bytes."
    )
    unpriced_gb_hours: Amount | None = Field(
        None, description="Gigabyte-hours stored whose price is not known yet."
    )
    unpriced_puts: Long | None = Field(
        None, description="Write and list requests whose price is not known yet."
    )
    unpriced_gets: Long | None = Field(
        None, description="Other requests whose price is not known yet."
    )
    unpriced_moved_bytes: Long | None = Field(
        None, description="Bytes moved between regions whose price is not known yet."
    )
    region: ShortText | None = Field(
        None, description="Region of the bucket, as workers report it."
    )
    endpoint: ShortText | None = Field(
        None, description="Host of a store that is not the cloud's own, as workers report it."
    )
    as_of: Time | None = Field(None, description="Time up to which these sums count.")
