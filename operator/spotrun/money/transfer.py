"""What bytes between places cost, where the cloud charges for them and the price is known."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache

from spotrun.money.builtin import read_data
from spotrun.money.units import Usd

_BYTES_PER_GB = 10**9
# AWS charges a byte between zones of a region at both ends, a cent per GB each.
BETWEEN_ZONES_PER_GB = Usd(Decimal("0.01") + Decimal("0.01"))
_ANY = "*"


@dataclass(frozen=True)
class Place:
    """Where a worker runs."""

    region: str
    zone: str


def usd_per_gb(sender: Place, receiver: Place) -> Usd | None:
    """The price of a GB from one place to another; None: unknown."""
    if not (sender.zone and receiver.zone):
        return None
    if sender == receiver:
        return Usd()
    if sender.region == receiver.region:
        return BETWEEN_ZONES_PER_GB if sender.region in _aws_egress() else None
    if not {sender.region, receiver.region} <= _aws_egress().keys():
        return None
    prices = _aws_egress()[sender.region]
    return prices.get(receiver.region, prices[_ANY])


def transfer_usd(num_bytes: int, sender: Place, receiver: Place) -> Usd | None:
    """What it costs to send so many bytes; None: unknown."""
    price = usd_per_gb(sender, receiver)
    return price * Fraction(num_bytes, _BYTES_PER_GB) if price is not None else None


@cache
def _aws_egress() -> Mapping[str, Mapping[str, Usd]]:
    """USD per GB by region of the sender and of the receiver, of which one stands for the rest."""
    prices: dict[str, dict[str, Usd]] = {}
    rows = (line for line in read_data("aws_egress.csv").splitlines() if not line.startswith("#"))
    for row in csv.DictReader(rows):
        price = Usd(Decimal(row["usdPerGb"]))
        prices.setdefault(row["fromRegion"], {})[row["toRegion"]] = price
    return prices
