"""The cost of a job, divided into the parts of a bill: by category, capacity type and pool.

Amounts are whole units of a hundredth of a cent, the precision of a job's status. So parts that are
divided by the largest remainder add up to the sum in the status, to the last digit.
"""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from spotrun.api.capacitypool import Capacity
from spotrun.money.units import Usd
from spotrun.policies.cost.billing.apportion import apportion
from spotrun.state.stored.cost import Cost

UNITS_PER_CENT: Final = 100
UNITS_PER_USD: Final = 100 * UNITS_PER_CENT


class Category(StrEnum):
    """The category of an amount on a bill."""

    COMPUTE = "compute"  # the workers' shares of their nodes, without lost work
    LOST_WORK = "lostWork"  # the part of these shares for steps done twice and for stalls
    IDLE = "idle"  # unused parts of nodes that only this job used
    STORAGE = "storage"  # checkpoints in object stores
    TRANSFER = "transfer"  # traffic of gradients between zones, estimated


class Part(NamedTuple):
    """The part of a bill to which an amount belongs."""

    category: str
    capacity: str = ""  # Spot, OnDemand or Reserved; "": it does not apply
    pool: str = ""  # as named in the job's status; "": none


Amounts = Mapping[Part, int]
"""Units by part; a missing part has cost nothing."""

NOTHING: Final[Amounts] = {}


def units_of(usd: Usd | None) -> int:
    """Return an amount in units, rounded half to even; an unknown one is 0."""
    return round(usd.exact * UNITS_PER_USD) if usd is not None else 0


def usd_of(units: int) -> Decimal:
    """Return units in USD."""
    return Decimal(units).scaleb(-4)


def parts_of(cost: Cost, capacity_of: Mapping[str, str]) -> dict[Part, int]:
    """Return what a job has cost since its beginning, by parts.

    `capacity_of` has the capacity types of known pools; the spot cost beyond these pools is
    assumed to belong to pools of unknown type.
    """
    parts = dict[Part, int]()
    for pool, capacity, units, lost in _by_pool(cost, capacity_of):
        _put(parts, Part(Category.COMPUTE, capacity, pool), units - lost)
        _put(parts, Part(Category.LOST_WORK, capacity, pool), lost)
    _put(parts, Part(Category.IDLE), units_of(cost.idle_usd))
    _put(parts, Part(Category.STORAGE), units_of(cost.storage.usd if cost.storage else None))
    _put(parts, Part(Category.TRANSFER), units_of(cost.estimated_transfer_usd))
    return parts


def difference(one: Amounts, other: Amounts) -> dict[Part, int]:
    """Return `one` minus `other`, part by part; parts without a difference are left out."""
    every = {part: one.get(part, 0) - other.get(part, 0) for part in (*one, *other)}
    return {part: units for part, units in every.items() if units}


def together(one: Amounts, other: Amounts) -> dict[Part, int]:
    """Return the sums of both, part by part; parts whose sum is zero are left out."""
    every = {part: one.get(part, 0) + other.get(part, 0) for part in (*one, *other)}
    return {part: units for part, units in every.items() if units}


def _put(parts: dict[Part, int], part: Part, units: int) -> None:
    if units:
        parts[part] = parts.get(part, 0) + units


def _by_pool(cost: Cost, capacity_of: Mapping[str, str]) -> list[tuple[str, str, int, int]]:
    """Return (pool, capacity, units, lost units of these); the sums are those of the job."""
    pools = {one.pool: one.usd.exact for one in cost.by_pool} or {"": Fraction(1)}
    units = apportion(units_of(cost.usd), list(pools.values()))
    spent = dict(zip(pools, units, strict=True))
    spot = min(units_of(cost.spot_usd), sum(units))
    spot -= sum(spent[pool] for pool in pools if capacity_of.get(pool) == Capacity.SPOT)
    rows = list[tuple[str, str, int]]()
    for pool, amount in spent.items():
        if (known := capacity_of.get(pool)) is not None:
            rows.append((pool, known, amount))
            continue
        on_spot = min(max(spot, 0), amount)
        spot -= on_spot
        rows.append((pool, Capacity.SPOT, on_spot))
        rows.append((pool, Capacity.ON_DEMAND, amount - on_spot))
    lost = apportion(units_of(cost.lost_work_usd), [amount for *_, amount in rows])
    return [(*row, part) for row, part in zip(rows, lost, strict=True)]
