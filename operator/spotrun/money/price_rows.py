"""The rows of a price table, and the question that they answer."""

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.amounts import Amount
from spotrun.money.units import UsdPerHour


@dataclass(frozen=True)
class Offering:
    """A node as a market offers it; an unknown property is empty."""

    instance_type: str
    capacity: Capacity
    region: str = ""
    zone: str = ""
    node: str = ""  # the name, where it is about a node that is there
    accelerator: str = ""  # the GPU's model
    gpus: int = 0


@dataclass(frozen=True)
class PriceRow:
    """The price of nodes of a type, in a region or zone or ("") everywhere; or of a named node."""

    usd_per_hour: UsdPerHour
    instance_type: str = ""
    capacity: Capacity = Capacity.ON_DEMAND
    region: str = ""
    zone: str = ""
    node: str = ""
    as_of: datetime | None = None

    @property
    def about(self) -> tuple[object, ...]:
        """The key without the price: two rows with the same key contradict each other."""
        return (self.instance_type, self.capacity, self.region, self.zone, self.node, self.as_of)


@dataclass(frozen=True)
class GpuRow:
    """The price of one GPU, in tables that price nodes without theirs."""

    usd_per_hour: UsdPerHour
    accelerator: str  # as `model_of` writes it
    region: str = ""

    @property
    def about(self) -> tuple[object, ...]:
        """The key without the price."""
        return (self.accelerator, self.region)


def model_of(accelerator: str) -> str:
    """Return a GPU's model in a comparable form: Quadro_RTX_4000 and Quadro-RTX-4000 are one."""
    return re.sub(r"[\s_]+", "-", accelerator.strip()).lower()


def read_price(text: str) -> UsdPerHour:
    """Read a price that a person or another tool wrote, to the twelfth decimal place."""
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,30})?", stripped, re.ASCII) is None:
        raise ValueError(f"must be a decimal number of at least 0, like 12.50 (this is {text!r})")
    return UsdPerHour.of(Amount.of(Decimal(stripped)))
