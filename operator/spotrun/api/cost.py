"""The cost of a job in its status, and the sums that must not be lost."""

from typing import Annotated

from pydantic import Field

from spotrun.api import old_names
from spotrun.api.field_types.amounts import Amount, Percent, SignedAmount
from spotrun.api.field_types.bounded import Count, ListedWorkerIds, Long, ShortText
from spotrun.api.field_types.text_values import Time
from spotrun.api.model import Model
from spotrun.api.names import Pricing
from spotrun.api.old_names import reading
from spotrun.api.status_parts.spend_limit import SpendBefore
from spotrun.api.status_parts.storage_cost import StorageCost, StorageSums


class Waste(Model):
    """Money that bought no progress, by cause, in USD."""

    redone_usd: Amount | None = Field(
        None, description="Steps done twice, in USD; included in lostWorkUsd."
    )
    standstill_usd: Amount | None = Field(
        None,
        description="Stalls around losses, restarts and resizes, in USD; the rest of lostWorkUsd.",
    )
    peers_usd: Amount | None = Field(
        None,
        description="Time in useful steps in which workers waited for each other, in USD; absent "
        "if the trainer does not measure it.",
    )
    data_usd: Amount | None = Field(
        None,
        description="Time in useful steps in which workers waited for training data, in USD; "
        "absent if the trainer does not measure it.",
    )
    checkpoint_usd: Amount | None = Field(
        None,
        description="Time between steps in which training stopped to save, in USD; absent if the "
        "trainer does not measure it.",
    )


MOST_POOLS = 16
"""The number of pools whose cost is listed by name; the cost of the others is added up."""
OTHER_POOLS = "(other)"
"""The name of that sum; no CapacityPool can have it."""
MOST_SHOWN_POOLS = MOST_POOLS + 2
"""The listed pools, that sum, and the nodes that are in no pool."""


class PoolCost(Model):
    """The cost of the job in a pool."""

    pool: ShortText = Field(
        description=f"Name of the CapacityPool. {OTHER_POOLS} stands for all pools after the "
        f"first {MOST_POOLS}; empty for nodes that are in no pool."
    )
    usd: Amount = Field(description="Spent in this pool so far, in USD.")
    corrected_usd: SignedAmount | None = Field(
        None,
        description="Amount by which usd fell when less was owed than shown, in USD: zero or "
        "below. It is already included in usd.",
    )


PoolCosts = Annotated[
    tuple[PoolCost, ...],
    Field(
        max_length=MOST_SHOWN_POOLS,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["pool"],
        },
    ),
]


class Cost(Model):
    """The cost and savings of the job, in USD: its share of its nodes while they worked for it."""

    usd: Amount | None = Field(None, description="Spent so far, in USD.")
    usd_per_hour: Amount | None = Field(None, description="Present cost, in USD per hour.")
    spot_usd: Amount | None = Field(
        None, description="Spent so far on spot capacity, in USD; included in usd."
    )
    spot_corrected_usd: SignedAmount | None = Field(
        None,
        description="Amount by which spotUsd fell when less was owed than shown, in USD: zero or "
        "below. It is already included in spotUsd.",
    )
    by_pool: PoolCosts | None = Field(
        None, description="The amount in usd, split by the CapacityPools of the nodes."
    )
    on_demand_usd: Amount | None = Field(
        None,
        description="Cost of the same useful work on the cheapest suitable on-demand capacity, in "
        "USD.",
    )
    saved_usd: SignedAmount | None = Field(
        None,
        description="Savings through spot, in USD: onDemandUsd minus usd. Negative if the job "
        "cost more.",
    )
    lost_work_usd: Amount | None = Field(
        None, description="Spent on steps done twice and on stalls, in USD; included in usd."
    )
    waste: Waste | None = Field(
        None,
        description="The part of usd that bought no progress, by cause, as far as it is measured.",
    )
    idle_usd: Amount | None = Field(
        None,
        description="Cost of the unused parts of nodes on which no other job runs, from when a "
        "node came until this job's workers have left it, in USD. Not included in usd.",
    )
    estimated_transfer_usd: Amount | None = Field(
        None,
        description="Estimated cost of gradient traffic between zones, in USD, from the size of "
        "the gradients and the cloud's list price. Not included in usd; absent if that price is "
        "unknown.",
    )
    storage: StorageCost | None = Field(
        None,
        description="Cost of checkpoints in an object store. Not included in usd, but in "
        "budgetUsedPercent. Absent without checkpoint.uri.",
    )
    goodput: Percent | None = Field(
        None,
        description='Share of usd that paid for new steps that were kept, e.g. "93%". The rest '
        "paid for starting, waiting, saving and steps done twice.",
    )
    usd_per_step: Amount | None = Field(
        None, description="Cost per step so far, in USD, with all other costs included."
    )
    usd_per_million_samples: Amount | None = Field(
        None,
        description="Cost per million samples so far, in USD, with all other costs included; "
        "absent if the trainer does not report samples.",
    )
    usd_per_epoch: Amount | None = Field(
        None,
        description="Cost per epoch so far, in USD, with all other costs included; absent if the "
        "trainer does not report samples, or its dataset has no length.",
    )
    interruption_usd: Amount | None = Field(
        None,
        description="Cost of losing one worker without notice now, in USD: repeated steps and "
        "time without training, for the worker whose loss costs most. Not included in usd.",
    )
    forecast_usd: Amount | None = Field(
        None, description="Expected total cost of the job at its end, in USD."
    )
    forecast_low_usd: Amount | None = Field(
        None, description="The forecast if all goes as well as at the best recent time, in USD."
    )
    forecast_high_usd: Amount | None = Field(
        None, description="The forecast if all goes as badly as at the worst recent time, in USD."
    )
    budget_used_percent: Percent | None = Field(
        None, description='Share of budget.maxCostUsd that is spent, e.g. "43%".'
    )
    corrected_usd: SignedAmount | None = Field(
        None,
        description="Amount that later findings have added to usd after it was shown, in USD; "
        "below zero if less was owed than shown. It is already included in usd.",
    )
    pricing: Pricing | None = Field(
        None, description=f"Whether the sums are complete. {Pricing.explained()}"
    )
    stop_at: Time | None = Field(
        None,
        description="Time at which workers that cannot reach the operator save and end: at 1.2 "
        "times the present rate, the budget is used up then.",
    )
    as_of: Time | None = Field(None, description="Time up to which these values count.")


class EarlierRate(Model):
    """An earlier rate of these workers, until the next one."""

    usd_per_hour: ShortText = Field(description="The rate, in USD per hour.")
    since: ShortText | None = Field(
        None,
        description="Time from which the rate is valid; absent: since the workers got their nodes.",
    )
    is_spot: bool | None = Field(
        None, description="Whether the workers were on spot capacity; absent: the same as now."
    )
    pool: ShortText | None = Field(
        None, description="The name under which this counts in byPool; absent: the same as now."
    )


MOST_EARLIER = 16


class Rate(Model):
    """The rate of each of these workers.

    The operator checks the fields when it writes: the API server allows no rules in long lists.
    """

    workers: ListedWorkerIds = Field(description='Worker ids, as intervals, e.g. "0-2,7".')
    usd_per_hour: ShortText = Field(
        description="Price of the node times the worker's share of it, in USD per hour."
    )
    since: ShortText | None = Field(
        None,
        description="Time from which the rate is valid; absent: since the workers got their "
        "nodes. Earlier cost of the workers is in the sums. If two rates name a worker, the later "
        "one replaces the other.",
    )
    before: Annotated[tuple[EarlierRate, ...], Field(max_length=MOST_EARLIER)] | None = Field(
        None,
        description="Recent earlier rates that are not in the sums, oldest first. They are needed "
        "when a worker is found to have ended some time ago.",
    )
    is_spot: bool | None = Field(None, description="Whether the workers are on spot capacity.")
    pool: ShortText | None = Field(
        None, description="The name under which this counts in byPool; absent: none."
    )


class ChargeEnd(Model):
    """The end of the charge of lost workers: the end of their containers is never reported."""

    workers: ListedWorkerIds = Field(description='Worker ids, as intervals, e.g. "0-2,7".')
    at: ShortText = Field(description="Time at which these workers were last known to run.")


class Mark(Model):
    """A step that the job had reached, and its cost by then."""

    step: Long = Field(description="The last step that was done by then.")
    usd: Amount = Field(description="Amount spent by then, in USD.")


class Accumulators(Model):
    """Exact sums over settled workers and past times; running workers are added on demand."""

    model_config = reading(old_names.ACCUMULATORS)

    usd: Amount | None = Field(None, description="Cost of settled workers, in USD.")
    spot_usd: Amount | None = Field(None, description="The part of usd spent on spot, in USD.")
    by_pool: PoolCosts | None = Field(None, description="The amount in usd, split by pools.")
    unpriced_seconds: Amount | None = Field(
        None,
        description="Time of settled workers whose price was never known, in seconds; it is in no "
        "sum.",
    )
    rates: Annotated[tuple[Rate, ...], Field(max_length=20_000)] | None = Field(
        None,
        description="Rates of the workers that are not settled. A price is stored as soon as it "
        "is known, because its node may be gone at the end. One entry for all workers that have "
        "cost the same since they started.",
    )
    ends: Annotated[tuple[ChargeEnd, ...], Field(max_length=512)] | None = Field(
        None, description="The end of the charge of workers that are lost and not settled."
    )
    corrected_usd: SignedAmount | None = Field(
        None,
        description="Amount by which later findings have changed usd after it was shown, in USD.",
    )
    reserved_usd: Amount | None = Field(
        None,
        description="Amount reserved for the last checkpoint when the budget was used up, in USD.",
    )
    continue_above_usd: Amount | None = Field(
        None,
        description="The highest sum of what was spent and reserved since the budget was used up, "
        "in USD. The job continues once maxCostUsd is above it.",
    )
    on_demand_usd: Amount | None = Field(
        None, description="Cost of the useful work up to asOf at on-demand prices, in USD."
    )
    lost_work_usd: Amount | None = Field(
        None, description="Cost of the lost work up to asOf, in USD."
    )
    redone_usd: Amount | None = Field(
        None, description="The part of lostWorkUsd for steps done twice, in USD."
    )
    useful_step: Long | None = Field(
        None,
        description="The last step that is counted in onDemandUsd; repeated steps are not counted "
        "again.",
    )
    world_number: Count | None = Field(
        None, description="The world in which the work up to asOf was done."
    )
    marks: Annotated[tuple[Mark, ...], Field(max_length=16)] | None = Field(
        None, description="Recent steps and costs from which the forecast is made, newest last."
    )
    useful_usd: Amount | None = Field(
        None, description="Cost of the steps from firstStep to peakStep, in USD."
    )
    peers_usd: Amount | None = Field(
        None, description="The part of usefulUsd in which workers waited for each other, in USD."
    )
    data_usd: Amount | None = Field(
        None, description="The part of usefulUsd in which workers waited for data, in USD."
    )
    checkpoint_usd: Amount | None = Field(
        None, description="Cost of the time in which training stopped to save, in USD."
    )
    checkpoint_seconds: Amount | None = Field(
        None, description="The part of that time in the world checkpointWorldNumber, in seconds."
    )
    checkpoint_world_number: Count | None = Field(
        None, description="The world in which training last stopped to save."
    )
    first_step: Long | None = Field(None, description="The step with which the job began.")
    samples_per_step: Amount | None = Field(
        None, description="Samples of a step, as the trainer last reported them."
    )
    epoch_samples: Long | None = Field(
        None, description="Samples of an epoch, as the trainer last reported them."
    )
    peak_step: Long | None = Field(None, description="The highest step that was ever done.")
    idle_usd: Amount | None = Field(
        None, description="Cost of the unused parts of nodes up to idleAsOf, in USD."
    )
    idle_as_of: Time | None = Field(
        None, description="Time up to which idleUsd counts; absent while there is no node."
    )
    transfer_usd: Amount | None = Field(
        None, description="Estimated cost of traffic between zones up to asOf, in USD."
    )
    storage: StorageSums | None = Field(None, description="Sums of the cost of checkpoint storage.")
    spend_before: SpendBefore | None = Field(
        None, description="Spent before the present month and week; only under a SpendLimit."
    )
    as_of: Time | None = Field(None, description="Time up to which these sums count.")
