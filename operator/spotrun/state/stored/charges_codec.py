"""The storage format of charges and of their ends: one entry for all workers that share it.

A node that states its price may be gone when its workers are settled, and an operator that restarts
has not seen the earlier price. So the charges are in the status.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from spotrun.api.cost import MOST_EARLIER, ChargeEnd, EarlierRate, Rate
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time, WorkerIds
from spotrun.money.charges import Book, Charge, Charges, grouped
from spotrun.money.price_history import EVER
from spotrun.money.units import UsdPerHour
from spotrun.state.stored.cost import Ends
from spotrun.state.stored.optional_values import ordered


def read_rates(rates: Iterable[Rate]) -> Book:
    """Read the charges; raises ValueError if a number or time in them is invalid."""
    book: dict[int, Charges] = {}
    for rate in rates:
        charges = Charges(_charges(rate))
        for worker_id in ordered(rate.workers):
            # Older operators wrote one entry per price.
            known = book.get(worker_id)
            book[worker_id] = Charges((*known, *charges)) if known is not None else charges
    return book


def write_rates(book: Book) -> tuple[Rate, ...] | None:
    """Write them; None where there are none."""
    groups = grouped(book)
    rates = (rate for charges in sorted(groups) for rate in _rates(charges, groups[charges]))
    return tuple(rates) or None


def read_ends(stored: Iterable[ChargeEnd]) -> Ends:
    """Read the ends of charges; raises ValueError if a number or time in them is invalid."""
    return {
        worker_id: Time(end.at).datetime.astimezone(UTC)
        for end in stored
        for worker_id in ordered(end.workers)
    }


def write_ends(ends: Ends) -> tuple[ChargeEnd, ...] | None:
    """Write them; None where there are none."""
    at: dict[datetime, list[int]] = {}
    for worker_id in sorted(ends):
        at.setdefault(ends[worker_id], []).append(worker_id)
    entries = (
        ChargeEnd(workers=WorkerIds.of(tuple(at[one])), at=Time.of(one))
        for one in sorted(at, reverse=True)
    )
    return tuple(entries) or None


def _charges(rate: Rate) -> Iterator[Charge]:
    is_spot, pool = bool(rate.is_spot), rate.pool or ""
    for one in rate.before or ():
        was_spot = is_spot if one.is_spot is None else one.is_spot
        in_pool = pool if one.pool is None else one.pool
        yield _charge(one.usd_per_hour, one.since, is_spot=was_spot, pool=in_pool)
    yield _charge(rate.usd_per_hour, rate.since, is_spot=is_spot, pool=pool)


def _rates(charges: Charges, worker_ids: Sequence[int]) -> Iterator[Rate]:
    """Yield one entry, or several if the status of an older operator has more prices."""
    for first in range(0, len(charges), MOST_EARLIER + 1):
        yield _rate(charges[first : first + MOST_EARLIER + 1], worker_ids)


def _rate(charges: Sequence[Charge], worker_ids: Iterable[int]) -> Rate:
    *before, last = charges
    return Rate(
        workers=WorkerIds.of(worker_ids),
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
