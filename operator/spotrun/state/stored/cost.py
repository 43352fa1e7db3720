"""The cost of a job, as decisions carry it: the shown cost, and the exact sums behind it.

Each field is explained at its name in `api/cost.py`. None means unknown, which is not zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from spotrun.api.field_types.amounts import Percent
from spotrun.api.names import Pricing
from spotrun.money.charges import Book
from spotrun.money.forecast import Mark
from spotrun.money.ledger import ByPool
from spotrun.money.other_costs.storage_costs import NO_USAGE, StorageUsd, Usage
from spotrun.money.units import Usd, UsdPerHour

Ends = Mapping[int, datetime]
"""The stored ends of charges, by worker id."""


@dataclass(frozen=True, slots=True)
class Waste:
    """Money that was paid but bought no progress, by cause."""

    redone_usd: Usd | None = None
    standstill_usd: Usd | None = None
    peers_usd: Usd | None = None
    data_usd: Usd | None = None
    checkpoint_usd: Usd | None = None


NO_WASTE = Waste()


@dataclass(frozen=True, slots=True)
class PoolCost:
    """The cost of the job in a pool, as it is shown."""

    pool: str
    usd: Usd
    corrected_usd: Usd | None = None


@dataclass(frozen=True, slots=True)
class StorageCost:
    """The cost of checkpoints in an object store, as it is shown."""

    usd: Usd | None = None
    stored_usd: Usd | None = None
    requests_usd: Usd | None = None
    transfer_usd: Usd | None = None
    stored_bytes: int | None = None
    usd_per_month: Usd | None = None
    pricing: Pricing | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost that is shown to people, rounded for them."""

    usd: Usd | None = None
    usd_per_hour: UsdPerHour | None = None
    spot_usd: Usd | None = None
    spot_corrected_usd: Usd | None = None
    by_pool: tuple[PoolCost, ...] = ()
    on_demand_usd: Usd | None = None
    saved_usd: Usd | None = None
    lost_work_usd: Usd | None = None
    waste: Waste = NO_WASTE
    idle_usd: Usd | None = None
    estimated_transfer_usd: Usd | None = None
    storage: StorageCost | None = None
    goodput: Percent | None = None
    usd_per_step: Usd | None = None
    usd_per_million_samples: Usd | None = None
    usd_per_epoch: Usd | None = None
    interruption_usd: Usd | None = None
    forecast_usd: Usd | None = None
    forecast_low_usd: Usd | None = None
    forecast_high_usd: Usd | None = None
    budget_used_percent: Percent | None = None
    corrected_usd: Usd | None = None
    pricing: Pricing | None = None
    stop_at: datetime | None = None
    as_of: datetime | None = None


NO_COST = Cost()
"""The cost of a job before any of it is shown."""


@dataclass(frozen=True, slots=True)
class StorageSums:
    """The sums of that cost, and the part of the present world's requests that is in them."""

    usd: StorageUsd = field(default_factory=StorageUsd)
    unpriced: Usage = NO_USAGE  # usage without a known price
    world_number: int = 0
    counted: Usage = NO_USAGE  # requests and traffic of the present world
    stored_bytes: int | None = None
    checkpoints: int | None = None
    region: str = ""
    endpoint: str = ""
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class SpendBefore:
    """The sums spent before the present month and week; kept if a SpendLimit applies."""

    month: datetime | None = None
    month_usd: Usd | None = None
    week: datetime | None = None
    week_usd: Usd | None = None


@dataclass(frozen=True, slots=True)
class Accumulators:
    """The sums over settled workers and past times, in the precision in which they are stored."""

    usd: Usd | None = None
    spot_usd: Usd | None = None
    by_pool: ByPool = field(default_factory=dict)
    unpriced_seconds: Decimal | None = None
    rates: Book = field(default_factory=dict)
    ends: Ends = field(default_factory=dict)
    corrected_usd: Usd | None = None
    reserved_usd: Usd | None = None
    continue_above_usd: Usd | None = None
    on_demand_usd: Usd | None = None
    lost_work_usd: Usd | None = None
    redone_usd: Usd | None = None
    useful_step: int | None = None
    world_number: int | None = None
    marks: tuple[Mark, ...] = ()
    useful_usd: Usd | None = None
    peers_usd: Usd | None = None
    data_usd: Usd | None = None
    checkpoint_usd: Usd | None = None
    checkpoint_seconds: Decimal | None = None
    checkpoint_world_number: int | None = None
    first_step: int | None = None
    samples_per_step: Decimal | None = None
    epoch_samples: int | None = None
    peak_step: int | None = None
    idle_usd: Usd | None = None
    idle_as_of: datetime | None = None
    transfer_usd: Usd | None = None
    storage: StorageSums | None = None
    spend_before: SpendBefore | None = None
    as_of: datetime | None = None


NO_SUMS = Accumulators()
"""The sums of a job before anything was added."""
