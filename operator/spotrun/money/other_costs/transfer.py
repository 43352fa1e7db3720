"""The cost of gradient traffic between zones, by the list prices of clouds: an estimate.

Clouds count bytes, but not per job. The traffic of a job is therefore computed from the size
of its gradients, and its cost is never added to that of its nodes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from spotrun.money.units import NO_USD, Usd

_BYTES_PER_GB = 10**9


@dataclass(frozen=True)
class Place:
    """The region and zone of a worker, from its node's labels; unknown ones are empty."""

    region: str
    zone: str


@dataclass(frozen=True)
class _Cloud:
    """A cloud that charges for traffic, recognised by the names of its zones."""

    region: re.Pattern[str]
    zone_suffix: re.Pattern[str]
    usd_per_gb: Decimal


# Prices as in the price lists of 2026. AWS charges the sender a cent and the receiver a cent; its
# regions in China, which bill in another currency, are not included.
_CLOUDS = (
    _Cloud(re.compile(r"(?!cn-)[a-z]{2}(-[a-z]+)+-\d+"), re.compile("[a-z]"), Decimal("0.02")),
    _Cloud(re.compile(r"[a-z]+-[a-z]+\d+"), re.compile("-[a-z]"), Decimal("0.01")),  # GCP
    _Cloud(re.compile(r"[a-z]+\d?"), re.compile(r"-\d"), Decimal(0)),  # Azure
)
DEAREST_USD_PER_GB = max(cloud.usd_per_gb for cloud in _CLOUDS)


def ring_usd(places: Sequence[Place], ranks: int, num_bytes: int) -> Usd:
    """Return the cost of adding up this many bytes of gradients around a ring of workers.

    `places` are the places of the workers in rank order; a worker may have several ranks. Links
    without a known price are not in the sum.
    """
    if len(places) < 2:
        return NO_USD
    links = zip(places, (*places[1:], places[0]), strict=True)
    prices = (usd_per_gb(one, other) for one, other in links)
    known = sum((price for price in prices if price is not None), Decimal(0))
    return Usd(Fraction(known) * gb_per_link(ranks, num_bytes))


def gb_per_link(ranks: int, num_bytes: int) -> Fraction:
    """Return the traffic on every link of a ring in an all-reduce: 2 (n-1)/n of the bytes."""
    return Fraction(2 * (ranks - 1), ranks) * num_bytes / _BYTES_PER_GB


def usd_per_gb(one: Place, other: Place) -> Decimal | None:
    """Return the price from place to place; None if it is unknown.

    Traffic between regions has a price for each pair of regions; these prices are not known here.
    """
    if one == other:
        return Decimal(0)
    if one.region != other.region:
        return None
    prices = (cloud.usd_per_gb for cloud in _CLOUDS if _is_of(cloud, one) and _is_of(cloud, other))
    return next(prices, None)


def _is_of(cloud: _Cloud, place: Place) -> bool:
    suffix = place.zone.removeprefix(place.region)
    is_named_so = cloud.region.fullmatch(place.region) and cloud.zone_suffix.fullmatch(suffix)
    return bool(is_named_so) and suffix != place.zone
