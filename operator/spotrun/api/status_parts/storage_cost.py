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
        None, description="Spent so far on all of it, in USD; the budget includes it."
    )
    stored_usd: Amount | None = Field(None, description="The part for kept bytes, in USD.")
    requests_usd: Amount | None = Field(None, description="The part for requests, in USD.")
    transfer_usd: Amount | None = Field(
        None, description="The part for traffic between regions, in USD."
    )
    stored_bytes: Long | None = Field(
        None, description="Bytes below the job's prefix now, in bytes, as the trainer counts them."
    )
    usd_per_month: Amount | None = Field(
        None,
        description="Cost of these bytes per month, in USD: also after the job's end, until "
        "somebody deletes them.",
    )
    pricing: Pricing | None = Field(
        None,
        description="Whether the price of the store is known; Partial: no price table has it, and "
        "what it concerns is in no sum.",
    )


class StorageSums(Model):
    """Exact sums of that cost, and how far they count."""

    stored_usd: Amount | None = Field(None, description="Cost of bytes that were kept, in USD.")
    requests_usd: Amount | None = Field(None, description="Cost of requests, in USD.")
    transfer_usd: Amount | None = Field(None, description="Cost of traffic, in USD.")
    world_number: Count | None = Field(
        None, description="The world of the requests that puts, gets and movedBytes count."
    )
    puts: Long | None = Field(None, description="Requests that write or list, in that world.")
    gets: Long | None = Field(None, description="Other requests in that world.")
    moved_bytes: Long | None = Field(
        None, description="Bytes that went to or came from another region, in that world."
    )
    stored_bytes: Long | None = Field(None, description="Bytes that are kept, in bytes.")
    checkpoints: Long | None = Field(None, description="Complete checkpoints among these.")
    unpriced_gb_hours: Amount | None = Field(
        None, description="Gigabytes times hours whose price is not known yet."
    )
    unpriced_puts: Long | None = Field(None, description="The same of requests that write or list.")
    unpriced_gets: Long | None = Field(None, description="The same of other requests.")
    unpriced_moved_bytes: Long | None = Field(None, description="The same of traffic, in bytes.")
    region: ShortText | None = Field(None, description="Region of the bucket, as workers say.")
    endpoint: ShortText | None = Field(
        None, description="Host of a store that is not the cloud's own, as workers say."
    )
    as_of: Time | None = Field(None, description="The moment up to which these count.")
