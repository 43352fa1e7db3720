"""The cost of an object store, as metered by somebody who only sees what passes on the wire.

It shares no code with the operator or the trainer. Prices are those of S3's price list, and what a
request costs follows from its method and its query, as the list says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

_GIB = 1 << 30
_MONTH = timedelta(hours=730)


class Request(Protocol):
    """A request as a proxy sees it."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...


@dataclass(frozen=True)
class PriceList:
    """Dollars for a gigabyte in a month, for a thousand requests of two kinds, and per gigabyte."""

    gb_month: Fraction = Fraction(23, 1000)
    tier_1: Fraction = Fraction(5, 1000)
    tier_2: Fraction = Fraction(4, 10_000)
    other_region: Fraction = Fraction(2, 100)


def tier(request: Request) -> int:
    """Return 1 or 2, and 0 for what is free."""
    _, _, query = request.path.partition("?")
    names = {one.partition("=")[0] for one in query.split("&")}
    if request.method == "DELETE" or (request.method == "POST" and "delete" in names):
        return 0
    is_list = request.method == "GET" and bool({"list-type", "uploads"} & names)
    return 1 if is_list or request.method in {"PUT", "POST"} else 2


@dataclass
class StoreMeter:
    """The bytes that were stored since when, and their price."""

    prices: PriceList = field(default_factory=PriceList)
    levels: list[tuple[datetime, int]] = field(default_factory=list)  # bytes from then on

    def stored(self, moment: datetime, num_bytes: int) -> None:
        """Note that from now on there are so many bytes."""
        self.levels.append((moment, num_bytes))

    def stored_usd(self, until: datetime) -> Fraction:
        """Return what the bytes have cost by a moment."""
        total = Fraction(0)
        for (since, num_bytes), (end, _) in pairwise([*self.levels, (until, 0)]):
            months = Fraction((min(end, until) - since) // timedelta(microseconds=1))
            months /= _MONTH // timedelta(microseconds=1)
            total += max(months, Fraction(0)) * Fraction(num_bytes, _GIB) * self.prices.gb_month
        return total

    def requests_usd(self, requests: Iterable[Request]) -> Fraction:
        """Return what requests have cost."""
        tiers = [tier(one) for one in requests]
        prices = self.prices
        return (tiers.count(1) * prices.tier_1 + tiers.count(2) * prices.tier_2) / 1000

    def transfer_usd(self, num_bytes: Sequence[int]) -> Fraction:
        """Return what bytes cost that went to another region."""
        return Fraction(sum(num_bytes), _GIB) * self.prices.other_region
