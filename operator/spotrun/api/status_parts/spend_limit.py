"""The status of a SpendLimit, and what a job remembers for it."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.amounts import Amount, Percent
from spotrun.api.field_types.bounded import Count, Long, LongText, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import Condition
from spotrun.api.model import Model

MOST_CLOSING = 100
MOST_NAMED = 20


class SpendBefore(Model):
    """The sums that the job had spent before the present month and week."""

    month: Time | None = Field(None, description="The beginning of the month.")
    month_usd: Amount | None = Field(None, description="Spent before it, in USD.")
    week: Time | None = Field(None, description="The beginning of the week.")
    week_usd: Amount | None = Field(None, description="Spent before it, in USD.")


class SpendCounts(Model):
    """The number of jobs under the limit."""

    running: Count | None = Field(None, description="Jobs with workers.")
    held: Count | None = Field(None, description="Jobs that may not start by this limit.")
    suspended: Count | None = Field(None, description="Jobs that this limit has stopped.")


_Names = Annotated[tuple[ShortText, ...], Field(max_length=MOST_NAMED)]


class SpendLimitStatus(Model):
    """The sums that are spent and held; only the operator writes here."""

    observed_generation: Long | None = Field(
        None, description="The metadata.generation that this status was concluded from."
    )
    message: LongText | None = Field(
        None, description="The state of the limit in one line that a person can act on."
    )
    period_start: Time | None = Field(
        None, description="The beginning of the present period; absent for Total."
    )
    period_end: Time | None = Field(None, description="Its end; absent for Total.")
    spent_usd: Amount | None = Field(
        None, description="Spent in the present period, deleted jobs included, in USD."
    )
    deleted_usd: Amount | None = Field(
        None,
        description="The part of it that is of jobs which were deleted in this period, in USD.",
    )
    reserved_usd: Amount | None = Field(
        None,
        description="Amount kept for jobs that run or may start, in USD: their end, and ten "
        "minutes of work.",
    )
    forecast_usd: Amount | None = Field(
        None,
        description="Expected spending by the end of the period if the jobs that run go on, in "
        "USD; absent for Total while the cost of a job at its end is unknown.",
    )
    used_percent: Percent | None = Field(
        None, description='Share of limitUsd that is spent, e.g. "43%".'
    )
    jobs: SpendCounts | None = Field(None, description="The number of jobs under the limit.")
    held_jobs: _Names | None = Field(
        None, description=f"Names of held jobs, the first {MOST_NAMED}."
    )
    suspended_jobs: _Names | None = Field(
        None, description=f"Names of stopped jobs, the first {MOST_NAMED}."
    )
    closing: Annotated[tuple[ShortText, ...], Field(max_length=MOST_CLOSING)] | None = Field(
        None,
        description="UIDs of deleted jobs that are in deletedUsd and not gone yet: none is added "
        "twice.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] | None = Field(
        None,
        description="Aspects of the limit for machines and `kubectl wait`.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    as_of: Time | None = Field(None, description="The moment up to which this counts.")
