"""The storage format of a job's cost, a part of what `codec.py` reads and writes."""

from spotrun.api import cost as api
from spotrun.api.field_types.amounts import Amount, SignedAmount
from spotrun.money.forecast import Mark
from spotrun.money.ledger import ByPool
from spotrun.money.units import Usd, UsdPerHour
from spotrun.state.stored.charges_codec import read_ends, read_rates, write_ends, write_rates
from spotrun.state.stored.cost import (
    NO_COST,
    NO_SUMS,
    NO_WASTE,
    Accumulators,
    Cost,
    PoolCost,
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
        goodput=stored.goodput,
        usd_per_step=_usd(stored.usd_per_step),
        usd_per_million_samples=_usd(stored.usd_per_million_samples),
        usd_per_epoch=_usd(stored.usd_per_epoch),
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
        goodput=cost.goodput,
        usd_per_step=_amount(cost.usd_per_step),
        usd_per_million_samples=_amount(cost.usd_per_million_samples),
        usd_per_epoch=_amount(cost.usd_per_epoch),
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
    """Read the sums; texts in them that only their writer checks raise ValueError if wrong."""
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
        as_of=time_of(sums.as_of),
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
