"""What each worker costs per hour, and since when: known while its node is there, kept beyond that.

A node that says its price may be gone when its workers are settled, and an operator that restarts
has not seen what the price was before. So the rates are in the status: one entry for all workers
that cost the same since the same moment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from spotrun.api.amounts import Amount
from spotrun.api.cost import Accumulators, Rate
from spotrun.api.values import Serials, Time
from spotrun.decide.serials import ordered
from spotrun.money.prices import EVER
from spotrun.money.units import UsdPerHour


@dataclass(frozen=True, order=True)
class Charge:
    """A worker's price from a moment on; the next one replaces it."""

    since: datetime  # EVER: since the worker has its node
    usd_per_hour: UsdPerHour
    is_spot: bool = False
    pool: str = ""  # under which it is told, see `pools`; "": none


Charges = tuple[Charge, ...]
"""Of one worker, in the order of time; none: its price was never known."""

Book = Mapping[int, Charges]
"""By serial."""

MOST_ENTRIES = 1024
"""More than a job has kinds of nodes: what was replaced since is added up then."""


def read_book(sums: Accumulators | None) -> dict[int, Charges]:
    """The charges as status holds them."""
    book: dict[int, Charges] = {}
    for rate in (sums.rates if sums is not None else None) or ():
        is_spot, pool = bool(rate.is_spot), rate.pool or ""
        charge = _charge(rate.usd_per_hour, rate.since, is_spot=is_spot, pool=pool)
        for serial in ordered(rate.workers):
            book[serial] = (*book.get(serial, ()), charge)
    return book


def write_book(book: Book) -> tuple[Rate, ...] | None:
    """The same as status holds it; None where there is nothing to say."""
    workers: dict[Charge, list[int]] = {}
    for serial in sorted(book):
        for charge in book[serial]:
            workers.setdefault(charge, []).append(serial)
    rates = tuple(_rate(charge, workers[charge]) for charge in sorted(workers))
    return rates or None


def num_entries(book: Book) -> int:
    """How long that would be."""
    return len({charge for charges in book.values() for charge in charges})


def _rate(charge: Charge, serials: Iterable[int]) -> Rate:
    return Rate(
        workers=Serials.of(tuple(serials)),
        usd_per_hour=charge.usd_per_hour.amount,
        since=None if charge.since == EVER else Time.of(charge.since),
        is_spot=charge.is_spot or None,
        pool=charge.pool or None,
    )


@lru_cache(maxsize=4096)
def _charge(usd_per_hour: str, since: str | None, *, is_spot: bool, pool: str) -> Charge:
    moment = EVER if since is None else Time(since).datetime.astimezone(UTC)
    return Charge(moment, UsdPerHour.of(Amount(usd_per_hour)), is_spot, pool)
