"""The cost of a job in its status, and the sums that must not be forgotten."""

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
    """Money that was paid and bought nothing, by its name, in USD."""

    redone_usd: Amount | None = Field(
        None, description="Steps done twice, in USD; contained in lostWorkUsd."
    )
    standstill_usd: Amount | None = Field(
        None,
        description="Stalls around losses, restarts and resizes, in USD; the rest of lostWorkUsd.",
    )
    peers_usd: Amount | None = Field(
        None,
        description="Time in useful steps in which workers waited for each other, in USD; absent "
        "where the trainer does not measure it.",
    )
    data_usd: Amount | None = Field(
        None, description="The same for waiting for training data, in USD."
    )
    checkpoint_usd: Amount | None = Field(
        None,
        description="Time between steps in which training stood still to save, in USD; absent "
        "where the trainer does not measure it.",
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
        description=f"Name of the CapacityPool; {OTHER_POOLS} for all beyond the first "
        f"{MOST_POOLS}, empty for nodes of none."
    )
    usd: Amount = Field(description="Spent there so far, in USD.")
    corrected_usd: SignedAmount | None = Field(
        None,
        description="Amount by which this has fallen when less turned out to be owed, in USD; zero "
        "or below. It is in usd.",
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
    usd_per_hour: Amount | None = Field(None, description="Spent now, in USD per hour.")
    spot_usd: Amount | None = Field(
        None, description="Spent so far on spot capacity, in USD; contained in usd."
    )
    spot_corrected_usd: SignedAmount | None = Field(
        None,
        description="Amount by which spotUsd has fallen when less turned out to be owed, in USD; "
        "zero or below. It is in spotUsd.",
    )
    by_pool: PoolCosts | None = Field(
        None, description="The same sum as usd, by the CapacityPools of the nodes."
    )
    on_demand_usd: Amount | None = Field(
        None, description="The same useful work on the cheapest fitting on-demand capacity, in USD."
    )
    saved_usd: SignedAmount | None = Field(
        None,
        description="Savings by spot, in USD: onDemandUsd minus usd. Negative when it cost more.",
    )
    lost_work_usd: Amount | None = Field(
        None, description="Spent on steps done twice and on stalls, in USD; contained in usd."
    )
    waste: Waste | None = Field(
        None,
        description="The part of usd that bought nothing, by its name, as far as that is measured.",
    )
    idle_usd: Amount | None = Field(
        None,
        description="Unused parts of nodes on which no other job runs, from when they came until "
        "this job's workers have left them, in USD; not in usd.",
    )
    estimated_transfer_usd: Amount | None = Field(
        None,
        description="Traffic of gradients between zones, in USD, estimated from their size and the "
        "list price of the cloud; not in usd, and absent where that price is not known.",
    )
    storage: StorageCost | None = Field(
        None,
        description="Checkpoints in an object store; not in usd, but in budgetUsedPercent. Absent "
        "without checkpoint.uri.",
    )
    goodput: Percent | None = Field(
        None,
        description='Share of usd that bought steps which were new and stay, e.g. "93%". The rest '
        "went into starting, waiting, saving and steps done twice.",
    )
    usd_per_step: Amount | None = Field(
        None, description="Cost per step so far, all else included, in USD."
    )
    usd_per_million_samples: Amount | None = Field(
        None,
        description="Cost per million samples so far, all else included, in USD; absent where the "
        "trainer does not tell of samples.",
    )
    usd_per_epoch: Amount | None = Field(
        None,
        description="Cost per epoch so far, all else included, in USD; absent where the trainer "
        "does not tell of samples, or its dataset has no length.",
    )
    interruption_usd: Amount | None = Field(
        None,
        description="What the loss of a worker without notice would cost now, in USD: steps done "
        "again and time without training, of the worker for whom that is most. Not in usd.",
    )
    forecast_usd: Amount | None = Field(
        None, description="Expected cost of the job at its end, in USD."
    )
    forecast_low_usd: Amount | None = Field(
        None, description="The same if all goes as well as it recently did at best, in USD."
    )
    forecast_high_usd: Amount | None = Field(
        None, description="The same if all goes as badly as it recently did at worst, in USD."
    )
    budget_used_percent: Percent | None = Field(
        None, description='Share of budget.maxCostUsd that is spent, e.g. "43%".'
    )
    corrected_usd: SignedAmount | None = Field(
        None,
        description="Amount that later findings have added to usd after it was shown, in USD; "
        "below zero where less was owed than was shown. It is in usd.",
    )
    pricing: Pricing | None = Field(
        None, description=f"Whether the sums are complete. {Pricing.explained()}"
    )
    stop_at: Time | None = Field(
        None,
        description="Workers that cannot reach the operator save and leave then, for by 1.2 times "
        "the present rate the budget would be used up.",
    )
    as_of: Time | None = Field(None, description="The moment up to which all this counts.")


class EarlierRate(Model):
    """An earlier rate of these workers, until the next one."""

    usd_per_hour: ShortText = Field(description="The rate, in USD per hour.")
    since: ShortText | None = Field(
        None, description="Time from which it holds; absent: since they have their nodes."
    )
    is_spot: bool | None = Field(
        None, description="Whether they were on spot capacity; absent: as they are now."
    )
    pool: ShortText | None = Field(
        None, description="Under which name this counts in byPool; absent: under that of now."
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
        description="Time from which it holds; absent: since they have their nodes. What a worker "
        "cost before is in the sums. Of two rates that name it the later one replaces the other.",
    )
    before: Annotated[tuple[EarlierRate, ...], Field(max_length=MOST_EARLIER)] | None = Field(
        None,
        description="The prices of late that are not in the sums, oldest first: of a worker that "
        "is found to have ended a while ago it must be known what it cost then.",
    )
    is_spot: bool | None = Field(None, description="Whether they are on spot capacity.")
    pool: ShortText | None = Field(
        None, description="Under which name this counts in byPool; absent: under none."
    )


class ChargeEnd(Model):
    """The end of the charge of lost workers: nobody reports when their containers ended."""

    workers: ListedWorkerIds = Field(description='Worker ids, as intervals, e.g. "0-2,7".')
    at: ShortText = Field(description="Time at which they were last known to run.")


class Mark(Model):
    """The step that a job had reached, and its cost by then."""

    step: Long = Field(description="The last step that had been done.")
    usd: Amount = Field(description="Amount spent by then, in USD.")


class Accumulators(Model):
    """Exact sums over settled workers and past times; running workers are added when asked."""

    model_config = reading(old_names.ACCUMULATORS)

    usd: Amount | None = Field(None, description="Cost of settled workers, in USD.")
    spot_usd: Amount | None = Field(None, description="The part of usd spent on spot, in USD.")
    by_pool: PoolCosts | None = Field(None, description="The same as usd, by pools.")
    unpriced_seconds: Amount | None = Field(
        None,
        description="Time of settled workers whose price was never known, in seconds; it is in no "
        "sum.",
    )
    rates: Annotated[tuple[Rate, ...], Field(max_length=20_000)] | None = Field(
        None,
        description="Cost of the workers that are not settled: a price is kept from when it was "
        "first known, for the node that says it may be gone at the end. One entry for all that "
        "have cost the same since they came.",
    )
    ends: Annotated[tuple[ChargeEnd, ...], Field(max_length=512)] | None = Field(
        None, description="End of the charge of workers that are lost and not settled."
    )
    corrected_usd: SignedAmount | None = Field(
        None, description="Amount by which later findings have changed the shown usd, in USD."
    )
    reserved_usd: Amount | None = Field(
        None,
        description="Amount reserved for the last checkpoint when the budget was used up, in USD; "
        "the job goes on once maxCostUsd is above this and what was spent.",
    )
    on_demand_usd: Amount | None = Field(
        None, description="Useful work up to asOf at on-demand prices, in USD."
    )
    lost_work_usd: Amount | None = Field(None, description="Lost work up to asOf, in USD.")
    redone_usd: Amount | None = Field(
        None, description="The part of it for steps done twice, in USD."
    )
    useful_step: Long | None = Field(
        None, description="The last step in onDemandUsd; steps done again are not in it again."
    )
    world_number: Count | None = Field(
        None, description="The world in which the work up to asOf was done."
    )
    marks: Annotated[tuple[Mark, ...], Field(max_length=16)] | None = Field(
        None, description="The recent course that the forecast is made from, newest last."
    )
    useful_usd: Amount | None = Field(
        None, description="Cost of the steps from firstStep to peakStep, in USD."
    )
    peers_usd: Amount | None = Field(
        None, description="The part of it in which workers waited for each other, in USD."
    )
    data_usd: Amount | None = Field(
        None, description="The part of it in which they waited for data, in USD."
    )
    checkpoint_usd: Amount | None = Field(
        None, description="Cost of the time in which training stood still to save, in USD."
    )
    checkpoint_seconds: Amount | None = Field(
        None, description="The part of that time in the world checkpointWorldNumber, in seconds."
    )
    checkpoint_world_number: Count | None = Field(
        None, description="The world in which training stood still last to save."
    )
    first_step: Long | None = Field(None, description="The step that the job began with.")
    samples_per_step: Amount | None = Field(
        None, description="Samples of a step, as the trainer last reported them."
    )
    epoch_samples: Long | None = Field(
        None, description="Samples of an epoch, as the trainer last reported them."
    )
    peak_step: Long | None = Field(None, description="The furthest step that was ever done.")
    idle_usd: Amount | None = Field(
        None, description="Unused parts of nodes up to idleAsOf, in USD."
    )
    idle_as_of: Time | None = Field(
        None, description="The moment up to which idleUsd counts; absent while there is no node."
    )
    transfer_usd: Amount | None = Field(
        None, description="Estimated traffic between zones up to asOf, in USD."
    )
    storage: StorageSums | None = Field(None, description="Sums of checkpoint storage.")
    spend_before: SpendBefore | None = Field(
        None, description="Spent before the present month and week; only under a SpendLimit."
    )
    as_of: Time | None = Field(None, description="The moment up to which these count.")
