"""The plan of saves within the budget for checkpoints, in a job's status."""

from pydantic import Field

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.bounded import Count, LongText
from spotrun.api.model import Model


class SavingPlan(Model):
    """The interval between checkpoints and the number kept, chosen by cost."""

    every_seconds: Count = Field(description="Interval between saves, in seconds.")
    keep: Count = Field(description="Number of checkpoints that are kept.")
    usd_per_month: Amount = Field(
        description="Cost of the store per month with this plan, in USD: stored bytes and requests."
    )
    lost_work_usd_per_month: Amount = Field(
        description="Expected cost per month of work that must be repeated after losses, in USD."
    )
    within_budget: bool = Field(description="Whether checkpoint.budgetUsd is enough for this plan.")
    why: LongText = Field(description="The reason for this plan, in words.")
