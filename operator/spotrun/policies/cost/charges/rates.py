"""What each worker costs per hour, and since when: known while its node is there, kept beyond that.

A node that says its price may be gone when its workers are settled, and an operator that restarts
has not seen what the price was before. So the rates are in the status: one entry for all workers
that have cost the same since they came.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from spotrun.api.cost import MOST_EARLIER, Accumulators, EarlierRate, Rate
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Serials, Time
from spotrun.money.charges import Book, Charge, Charges, grouped
from spotrun.money.price_history import EVER
from spotrun.money.units import UsdPerHour
from spotrun.state.view import View
from spotrun.state.worker_ids import ordered


def read_book(view: View, sums: Accumulators | None) -> Book:
    """Return the charges as status holds them."""
    rates = sums.rates if sums is not None else None
    return view.once_unlimited("book", (rates,), lambda: _read(rates or ()))


def write_book(book: Book) -> tuple[Rate, ...] | None:
    """Return the same as status holds it; None where there is nothing to say."""
    groups = grouped(book)
    rates = (rate for charges in sorted(groups) for rate in _rates(charges, groups[charges]))
    return tuple(rates) or None


def priced_workers(sums: Accumulators | None) -> frozenset[int]:
    """Return the serials of the workers that are in that book."""
    rates = (sums.rates if sums is not None else None) or ()
    return frozenset(serial for rate in rates for serial in ordered(rate.workers))


def _read(rates: Iterable[Rate]) -> Book:
    book: dict[int, Charges] = {}
    for rate in rates:
        charges = Charges(_charges(rate))
        for serial in ordered(rate.workers):
            # Older operators wrote an entry for each price.
            known = book.get(serial)
            book[serial] = Charges((*known, *charges)) if known is not None else charges
    return book


def _charges(rate: Rate) -> Iterator[Charge]:
    is_spot, pool = bool(rate.is_spot), rate.pool or ""
    for one in rate.before or ():
        was_spot = is_spot if one.is_spot is None else one.is_spot
        in_pool = pool if one.pool is None else one.pool
        yield _charge(one.usd_per_hour, one.since, is_spot=was_spot, pool=in_pool)
    yield _charge(rate.usd_per_hour, rate.since, is_spot=is_spot, pool=pool)


def _rates(charges: Charges, serials: Sequence[int]) -> Iterator[Rate]:
    """Return one entry, or several where a status of older operators knows more prices."""
    for first in range(0, len(charges), MOST_EARLIER + 1):
        yield _rate(Charges(charges[first : first + MOST_EARLIER + 1]), serials)


def _rate(charges: Charges, serials: Iterable[int]) -> Rate:
    *before, last = charges
    return Rate(
        workers=Serials.of(serials),
        usd_per_hour=_amount(last.usd_per_hour),
        since=_since(last),
        is_spot=last.is_spot or None,
        pool=last.pool or None,
        before=tuple(_earlier(one, last.is_spot, last.pool) for one in before) or None,
    )


@lru_cache(maxsize=4096)
def _earlier(charge: Charge, is_spot: bool, pool: str) -> EarlierRate:
    return EarlierRate(
        usd_per_hour=charge.usd_per_hour.amount,
        since=_since(charge),
        is_spot=None if charge.is_spot == is_spot else charge.is_spot,
        pool=None if charge.pool == pool else charge.pool,
    )


@lru_cache(maxsize=4096)
def _amount(usd_per_hour: UsdPerHour) -> Amount:
    return usd_per_hour.amount


def _since(charge: Charge) -> Time | None:
    return None if charge.since == EVER else _time(charge.since)


@lru_cache(maxsize=4096)
def _time(moment: datetime) -> Time:
    return Time.of(moment)


@lru_cache(maxsize=4096)
def _charge(usd_per_hour: str, since: str | None, *, is_spot: bool, pool: str) -> Charge:
    moment = EVER if since is None else Time(since).datetime.astimezone(UTC)
    return Charge(moment, UsdPerHour.of(Amount(usd_per_hour)), is_spot, pool)
