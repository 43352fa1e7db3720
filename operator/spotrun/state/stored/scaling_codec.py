"""The storage format of the memory of a job's sizes, a part of what `codec.py` reads and writes."""

from collections.abc import Mapping
from decimal import Decimal

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time
from spotrun.api.status_parts import scaling as api
from spotrun.state.stored.optional_values import amount_of, decimal_of, moment_of, time_of
from spotrun.state.stored.scaling import (
    NO_SCALING,
    Measured,
    Rejected,
    ScalingState,
    SizeChange,
)


def read_scaling(stored: api.ScalingStatus | None) -> ScalingState:
    """Read the memory of the sizes."""
    if stored is None:
        return NO_SCALING
    return ScalingState(
        size=stored.size,
        replaces=stored.replaces,
        reason=stored.reason,
        utilization=_numbers(stored.utilization),
        more_since=moment_of(stored.more_since),
        fewer_since=moment_of(stored.fewer_since),
        efficiency=_numbers(stored.efficiency),
        measured=tuple(_read_measured(one) for one in stored.measured or ()),
        rejected=tuple(_read_rejected(one) for one in stored.rejected or ()),
        last=_read_change(stored.last),
        decisions=stored.decisions or {},
    )


def write_scaling(scaling: ScalingState) -> api.ScalingStatus | None:
    """Write the memory of the sizes; None where nothing was decided."""
    if scaling == NO_SCALING:
        return None
    return api.ScalingStatus.model_construct(
        size=scaling.size,
        replaces=scaling.replaces,
        reason=scaling.reason,
        utilization=_amounts(scaling.utilization),
        more_since=time_of(scaling.more_since),
        fewer_since=time_of(scaling.fewer_since),
        efficiency=_amounts(scaling.efficiency),
        measured=tuple(_write_measured(one) for one in scaling.measured) or None,
        rejected=tuple(_write_rejected(one) for one in scaling.rejected) or None,
        last=_write_change(scaling.last),
        decisions=dict(scaling.decisions) or None,
    )


def _read_measured(stored: api.Measured) -> Measured:
    return Measured(
        workers=stored.workers,
        step_seconds=stored.step_seconds.decimal,
        samples_per_second=stored.samples_per_second.decimal,
        time=stored.time.datetime,
        compute=decimal_of(stored.compute),
        data=decimal_of(stored.data),
        accelerator=stored.accelerator or "",
    )


def _write_measured(measured: Measured) -> api.Measured:
    return api.Measured.model_construct(
        workers=measured.workers,
        step_seconds=Amount.of(measured.step_seconds),
        samples_per_second=Amount.of(measured.samples_per_second),
        compute=amount_of(measured.compute),
        data=amount_of(measured.data),
        accelerator=measured.accelerator or None,
        time=Time.of(measured.time),
    )


def _read_rejected(stored: api.Rejected) -> Rejected:
    return Rejected(stored.workers, stored.until.datetime, decimal_of(stored.efficiency))


def _write_rejected(rejected: Rejected) -> api.Rejected:
    return api.Rejected.model_construct(
        workers=rejected.workers,
        efficiency=amount_of(rejected.efficiency),
        until=Time.of(rejected.until),
    )


def _read_change(stored: api.Resize | None) -> SizeChange | None:
    if stored is None:
        return None
    return SizeChange(stored.time.datetime, stored.before, stored.after, stored.reason)


def _write_change(change: SizeChange | None) -> api.Resize | None:
    if change is None:
        return None
    return api.Resize.model_construct(
        time=Time.of(change.time), before=change.before, after=change.after, reason=change.reason
    )


def _numbers(amounts: Mapping[str, Amount] | None) -> Mapping[str, Decimal]:
    return {name: amount.decimal for name, amount in (amounts or {}).items()}


def _amounts(numbers: Mapping[str, Decimal]) -> dict[str, Amount] | None:
    return {name: Amount.of(number) for name, number in numbers.items()} or None
