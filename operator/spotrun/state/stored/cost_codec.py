"""The storage format of a job's cost, a part of what `codec.py` reads and writes."""

from decimal import Decimal
from fractions import Fraction

from spotrun.api import cost as api
from spotrun.api.field_types.amounts import Amount, SignedAmount
from spotrun.api.status_parts.spend_limit import SpendBefore as StoredBefore
from spotrun.api.status_parts.storage_cost import StorageCost as StoredStorage
from spotrun.api.status_parts.storage_cost import StorageSums as StoredSums
from spotrun.money.forecast import Mark
from spotrun.money.ledger import ByPool
from spotrun.money.other_costs.storage_costs import StorageUsd, Usage
from spotrun.money.units import Usd, UsdPerHour
from spotrun.state.stored.charges_codec import read_ends, read_rates, write_ends, write_rates
from spotrun.state.stored.cost import (
    NO_COST,
    NO_SUMS,
    NO_WASTE,
    Accumulators,
    Cost,
    PoolCost,
    SpendBefore,
    StorageCost,
    StorageSums,
    Waste,
)
from spotrun.state.stored.optional_values import amount_of, decimal_of, moment_of, time_of


def read_cost(stored: api.Cost | None) -> Cost:
    """Read the cost that is shown."""
    if stored is None:
        return NO_COST
    return Cost(
        usd=_usd(stored.usd),
        usd_per_hour=None if stored.usd_per_hour is None else UsdPerHour.of(stored.usd_per_hour),
        spot_usd=_usd(stored.spot_usd),
        spot_corrected_usd=_usd(stored.spot_corrected_usd),
        by_pool=tuple(
            PoolCost(one.pool, Usd.of(one.usd), _usd(one.corrected_usd))
            for one in stored.by_pool or ()
        ),
        on_demand_usd=_usd(stored.on_demand_usd),
        saved_usd=_usd(stored.saved_usd),
        lost_work_usd=_usd(stored.lost_work_usd),
        waste=_read_waste(stored.waste),
        idle_usd=_usd(stored.idle_usd),
        estimated_transfer_usd=_usd(stored.estimated_transfer_usd),
        storage=_read_storage(stored.storage),
        goodput=stored.goodput,
        usd_per_step=_usd(stored.usd_per_step),
        usd_per_million_samples=_usd(stored.usd_per_million_samples),
        usd_per_epoch=_usd(stored.usd_per_epoch),
        interruption_usd=_usd(stored.interruption_usd),
        forecast_usd=_usd(stored.forecast_usd),
        forecast_low_usd=_usd(stored.forecast_low_usd),
        forecast_high_usd=_usd(stored.forecast_high_usd),
        budget_used_percent=stored.budget_used_percent,
        corrected_usd=_usd(stored.corrected_usd),
        pricing=stored.pricing,
        stop_at=moment_of(stored.stop_at),
        as_of=moment_of(stored.as_of),
    )


def write_cost(cost: Cost) -> api.Cost | None:
    """Write it; None where nothing is shown."""
    if cost == NO_COST:
        return None
    return api.Cost.model_construct(
        usd=_amount(cost.usd),
        usd_per_hour=_amount(cost.usd_per_hour),
        spot_usd=_amount(cost.spot_usd),
        spot_corrected_usd=_signed(cost.spot_corrected_usd),
        by_pool=tuple(
            api.PoolCost.model_construct(
                pool=one.pool, usd=one.usd.amount, corrected_usd=_signed(one.corrected_usd)
            )
            for one in cost.by_pool
        )
        or None,
        on_demand_usd=_amount(cost.on_demand_usd),
        saved_usd=_signed(cost.saved_usd),
        lost_work_usd=_amount(cost.lost_work_usd),
        waste=_write_waste(cost.waste),
        idle_usd=_amount(cost.idle_usd),
        estimated_transfer_usd=_amount(cost.estimated_transfer_usd),
        storage=_write_storage(cost.storage),
        goodput=cost.goodput,
        usd_per_step=_amount(cost.usd_per_step),
        usd_per_million_samples=_amount(cost.usd_per_million_samples),
        usd_per_epoch=_amount(cost.usd_per_epoch),
        interruption_usd=_amount(cost.interruption_usd),
        forecast_usd=_amount(cost.forecast_usd),
        forecast_low_usd=_amount(cost.forecast_low_usd),
        forecast_high_usd=_amount(cost.forecast_high_usd),
        budget_used_percent=cost.budget_used_percent,
        corrected_usd=_signed(cost.corrected_usd),
        pricing=cost.pricing,
        stop_at=time_of(cost.stop_at),
        as_of=time_of(cost.as_of),
    )


def read_sums(stored: api.Accumulators | None) -> Accumulators:
    """Read the sums; raises ValueError if a number in them is invalid."""
    if stored is None:
        return NO_SUMS
    return Accumulators(
        usd=_usd(stored.usd),
        spot_usd=_usd(stored.spot_usd),
        by_pool={one.pool: Usd.of(one.usd) for one in stored.by_pool or ()},
        unpriced_seconds=decimal_of(stored.unpriced_seconds),
        rates=read_rates(stored.rates or ()),
        ends=read_ends(stored.ends or ()),
        corrected_usd=_usd(stored.corrected_usd),
        reserved_usd=_usd(stored.reserved_usd),
        continue_above_usd=_usd(stored.continue_above_usd),
        on_demand_usd=_usd(stored.on_demand_usd),
        lost_work_usd=_usd(stored.lost_work_usd),
        redone_usd=_usd(stored.redone_usd),
        useful_step=stored.useful_step,
        world_number=stored.world_number,
        marks=tuple(Mark(one.step, Usd.of(one.usd)) for one in stored.marks or ()),
        useful_usd=_usd(stored.useful_usd),
        peers_usd=_usd(stored.peers_usd),
        data_usd=_usd(stored.data_usd),
        checkpoint_usd=_usd(stored.checkpoint_usd),
        checkpoint_seconds=decimal_of(stored.checkpoint_seconds),
        checkpoint_world_number=stored.checkpoint_world_number,
        first_step=stored.first_step,
        samples_per_step=decimal_of(stored.samples_per_step),
        epoch_samples=stored.epoch_samples,
        peak_step=stored.peak_step,
        idle_usd=_usd(stored.idle_usd),
        idle_as_of=moment_of(stored.idle_as_of),
        transfer_usd=_usd(stored.transfer_usd),
        storage=_read_storage_sums(stored.storage),
        spend_before=_read_before(stored.spend_before),
        as_of=moment_of(stored.as_of),
    )


def write_sums(sums: Accumulators) -> api.Accumulators | None:
    """Write them; None where there are none."""
    if sums == NO_SUMS:
        return None
    return api.Accumulators.model_construct(
        usd=_amount(sums.usd),
        spot_usd=_amount(sums.spot_usd),
        by_pool=_write_pools(sums.by_pool),
        unpriced_seconds=amount_of(sums.unpriced_seconds),
        rates=write_rates(sums.rates),
        ends=write_ends(sums.ends),
        corrected_usd=_signed(sums.corrected_usd),
        reserved_usd=_amount(sums.reserved_usd),
        continue_above_usd=_amount(sums.continue_above_usd),
        on_demand_usd=_amount(sums.on_demand_usd),
        lost_work_usd=_amount(sums.lost_work_usd),
        redone_usd=_amount(sums.redone_usd),
        useful_step=sums.useful_step,
        world_number=sums.world_number,
        marks=tuple(api.Mark.model_construct(step=m.steps, usd=m.usd.amount) for m in sums.marks)
        or None,
        useful_usd=_amount(sums.useful_usd),
        peers_usd=_amount(sums.peers_usd),
        data_usd=_amount(sums.data_usd),
        checkpoint_usd=_amount(sums.checkpoint_usd),
        checkpoint_seconds=amount_of(sums.checkpoint_seconds),
        checkpoint_world_number=sums.checkpoint_world_number,
        first_step=sums.first_step,
        samples_per_step=amount_of(sums.samples_per_step),
        epoch_samples=sums.epoch_samples,
        peak_step=sums.peak_step,
        idle_usd=_amount(sums.idle_usd),
        idle_as_of=time_of(sums.idle_as_of),
        transfer_usd=_amount(sums.transfer_usd),
        storage=_write_storage_sums(sums.storage),
        spend_before=_write_before(sums.spend_before),
        as_of=time_of(sums.as_of),
    )


def _read_before(stored: StoredBefore | None) -> SpendBefore | None:
    if stored is None or stored == StoredBefore():
        return None
    return SpendBefore(
        month=moment_of(stored.month),
        month_usd=_usd(stored.month_usd),
        week=moment_of(stored.week),
        week_usd=_usd(stored.week_usd),
    )


def _write_before(before: SpendBefore | None) -> StoredBefore | None:
    if before is None:
        return None
    return StoredBefore.model_construct(
        month=time_of(before.month),
        month_usd=_amount(before.month_usd),
        week=time_of(before.week),
        week_usd=_amount(before.week_usd),
    )


def _read_waste(stored: api.Waste | None) -> Waste:
    if stored is None:
        return NO_WASTE
    return Waste(
        redone_usd=_usd(stored.redone_usd),
        standstill_usd=_usd(stored.standstill_usd),
        peers_usd=_usd(stored.peers_usd),
        data_usd=_usd(stored.data_usd),
        checkpoint_usd=_usd(stored.checkpoint_usd),
    )


def _write_waste(waste: Waste) -> api.Waste | None:
    if waste == NO_WASTE:
        return None
    return api.Waste.model_construct(
        redone_usd=_amount(waste.redone_usd),
        standstill_usd=_amount(waste.standstill_usd),
        peers_usd=_amount(waste.peers_usd),
        data_usd=_amount(waste.data_usd),
        checkpoint_usd=_amount(waste.checkpoint_usd),
    )


def _read_storage(stored: StoredStorage | None) -> StorageCost | None:
    if stored is None or stored == StoredStorage():
        return None
    return StorageCost(
        usd=_usd(stored.usd),
        stored_usd=_usd(stored.stored_usd),
        requests_usd=_usd(stored.requests_usd),
        transfer_usd=_usd(stored.transfer_usd),
        stored_bytes=stored.stored_bytes,
        usd_per_month=_usd(stored.usd_per_month),
        pricing=stored.pricing,
    )


def _write_storage(cost: StorageCost | None) -> StoredStorage | None:
    if cost is None:
        return None
    return StoredStorage.model_construct(
        usd=_amount(cost.usd),
        stored_usd=_amount(cost.stored_usd),
        requests_usd=_amount(cost.requests_usd),
        transfer_usd=_amount(cost.transfer_usd),
        stored_bytes=cost.stored_bytes,
        usd_per_month=_amount(cost.usd_per_month),
        pricing=cost.pricing,
    )


def _read_storage_sums(stored: StoredSums | None) -> StorageSums | None:
    if stored is None:
        return None
    gb_hours = decimal_of(stored.unpriced_gb_hours)
    found = StorageSums(
        usd=StorageUsd(
            Usd.of(stored.stored_usd), Usd.of(stored.requests_usd), Usd.of(stored.transfer_usd)
        ),
        unpriced=Usage(
            Fraction(gb_hours or 0),
            stored.unpriced_puts or 0,
            stored.unpriced_gets or 0,
            stored.unpriced_moved_bytes or 0,
        ),
        world_number=stored.world_number or 0,
        counted=Usage(
            puts=stored.puts or 0, gets=stored.gets or 0, moved_bytes=stored.moved_bytes or 0
        ),
        stored_bytes=stored.stored_bytes,
        checkpoints=stored.checkpoints,
        region=stored.region or "",
        endpoint=stored.endpoint or "",
        as_of=moment_of(stored.as_of),
    )
    return found if found != StorageSums() else None


def _write_storage_sums(sums: StorageSums | None) -> StoredSums | None:
    if sums is None:
        return None
    usd, unpriced, counted = sums.usd, sums.unpriced, sums.counted
    gb_hours = Decimal(f"{round(unpriced.gb_hours * 10**12)}E-12")
    return StoredSums.model_construct(
        stored_usd=_amount(usd.stored or None),
        requests_usd=_amount(usd.requests or None),
        transfer_usd=_amount(usd.transfer or None),
        unpriced_gb_hours=Amount.of(gb_hours) if gb_hours else None,
        unpriced_puts=unpriced.puts or None,
        unpriced_gets=unpriced.gets or None,
        unpriced_moved_bytes=unpriced.moved_bytes or None,
        world_number=sums.world_number or None,
        puts=counted.puts or None,
        gets=counted.gets or None,
        moved_bytes=counted.moved_bytes or None,
        stored_bytes=sums.stored_bytes,
        checkpoints=sums.checkpoints,
        region=sums.region or None,
        endpoint=sums.endpoint or None,
        as_of=time_of(sums.as_of),
    )


def _write_pools(by_pool: ByPool) -> api.PoolCosts | None:
    found = (
        api.PoolCost.model_construct(pool=name, usd=by_pool[name].amount)
        for name in sorted(by_pool)
    )
    return tuple(found) or None


def _usd(amount: Amount | None) -> Usd | None:
    return None if amount is None else Usd.of(amount)


def _amount(money: Usd | UsdPerHour | None) -> Amount | None:
    return None if money is None else money.amount


def _signed(usd: Usd | None) -> SignedAmount | None:
    return None if usd is None else usd.signed_amount
