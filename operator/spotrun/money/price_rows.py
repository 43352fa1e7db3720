"""The rows of a price table, and the node that is looked up in them."""

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.amounts import Amount
from spotrun.money.units import UsdPerHour


@dataclass(frozen=True)
class Offering:
    """A node that a market offers; an unknown property is empty."""

    instance_type: str
    capacity: Capacity
    region: str = ""
    zone: str = ""
    node: str = ""  # the name, if it is a node that exists
    accelerator: str = ""  # the GPU's model
    gpus: int = 0


@dataclass(frozen=True)
class PriceRow:
    """The price of nodes of a type, in a region, in a zone or ("") everywhere; or of one node."""

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
    """The price of one GPU, in tables whose prices of nodes do not include the GPUs."""

    usd_per_hour: UsdPerHour
    accelerator: str  # as `model_of` writes it
    region: str = ""

    @property
    def about(self) -> tuple[object, ...]:
        """The key without the price."""
        return (self.accelerator, self.region)


def model_of(accelerator: str) -> str:
    """Return a GPU's model in a form to compare: Quadro_RTX_4000 equals Quadro-RTX-4000."""
    return re.sub(r"[\s_]+", "-", accelerator.strip()).lower()


def read_price(text: str) -> UsdPerHour:
    """Read a price that a person or another tool wrote, to the twelfth decimal place."""
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,30})?", stripped, re.ASCII) is None:
        raise ValueError(f"must be a decimal number of at least 0, like 12.50 (this is {text!r})")
    return UsdPerHour.of(Amount.of(Decimal(stripped)))
