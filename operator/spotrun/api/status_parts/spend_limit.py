"""The status of a SpendLimit, and what a job's status stores for it."""

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
    """The amounts that the job spent before the present month and week."""

    month: Time | None = Field(None, description="Start of the present month.")
    month_usd: Amount | None = Field(None, description="Spent before that month, in USD.")
    week: Time | None = Field(None, description="Start of the present week.")
    week_usd: Amount | None = Field(None, description="Spent before that week, in USD.")


class SpendCounts(Model):
    """The numbers of jobs under the limit."""

    running: Count | None = Field(None, description="Jobs with workers.")
    held: Count | None = Field(None, description="Jobs that this limit keeps from starting.")
    suspended: Count | None = Field(None, description="Jobs that this limit has suspended.")


_Names = Annotated[tuple[ShortText, ...], Field(max_length=MOST_NAMED)]


class SpendLimitStatus(Model):
    """The observed state of the limit; only the operator writes here."""

    observed_generation: Long | None = Field(
        None, description="The metadata.generation for which this status was determined."
    )
    message: LongText | None = Field(
        None, description="The state of the limit, in one line that a person can act on."
    )
    period_start: Time | None = Field(
        None, description="Start of the present period; absent for Total."
    )
    period_end: Time | None = Field(
        None, description="End of the present period; absent for Total."
    )
    spent_usd: Amount | None = Field(
        None, description="Spent in the present period, in USD, including deleted jobs."
    )
    deleted_usd: Amount | None = Field(
        None,
        description="The part of spentUsd for jobs that were deleted in this period, in USD.",
    )
    reserved_usd: Amount | None = Field(
        None,
        description="Amount reserved for jobs that run or may start, in USD: for their end and "
        "ten minutes of work.",
    )
    forecast_usd: Amount | None = Field(
        None,
        description="Expected spending by the end of the period if the running jobs continue, in "
        "USD; absent for Total while the final cost of a job is unknown.",
    )
    used_percent: Percent | None = Field(
        None, description='Share of limitUsd that is spent, e.g. "43%".'
    )
    jobs: SpendCounts | None = Field(None, description="The numbers of jobs under the limit.")
    held_jobs: _Names | None = Field(
        None, description=f"Names of held jobs, the first {MOST_NAMED}."
    )
    suspended_jobs: _Names | None = Field(
        None, description=f"Names of suspended jobs, the first {MOST_NAMED}."
    )
    closing: Annotated[tuple[ShortText, ...], Field(max_length=MOST_CLOSING)] | None = Field(
        None,
        description="UIDs of deleted jobs that are counted in deletedUsd and still exist, so that "
        "none is counted twice.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] | None = Field(
        None,
        description="Conditions of the limit, for programs and `kubectl wait`.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    as_of: Time | None = Field(None, description="Time up to which these values count.")
