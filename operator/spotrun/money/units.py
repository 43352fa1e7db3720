"""Money and rates of money, exact: written as decimals, added up as fractions.

An hour has 3,600 seconds and a node may be shared in thirds, so a cost is seldom a decimal of
finite length. Sums are therefore kept as fractions and rounded once, when they are written: a
segment that is cut in two costs the same, to the last digit, with any precision of `decimal`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Self

from typing_extensions import override

from spotrun.api.field_types.amounts import Amount, SignedAmount

Number = Decimal | Fraction | int
_PLACES = 12  # as many as Amount carries
_MOST = Decimal("999999999999.999999999999")  # as much as Amount carries
_SECONDS_PER_HOUR = 3600
_TRILLION: int = 10**_PLACES
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, order=True, init=False, repr=False)
class _Money:
    exact: Fraction
    _hash: ClassVar[int]  # computed at the first request

    def __init__(self, number: Number = 0) -> None:
        object.__setattr__(self, "exact", _exactly(number))

    @classmethod
    def of(cls, amount: Amount | None) -> Self:
        """Read an amount of the API; an absent one is zero."""
        return cls(amount.decimal if amount is not None else 0)

    @override
    def __hash__(self) -> int:
        """Return the hash, cached: a fraction's takes microseconds, and lookups are many."""
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((type(self), self.exact)))
            return self._hash

    @property
    def decimal(self) -> Decimal:
        """The amount to the twelfth decimal place, half to even."""
        # Through text, because arithmetic on decimals rounds to the precision of their context.
        return Decimal(f"{round(self.exact * 10**_PLACES)}E-{_PLACES}")

    @property
    def amount(self) -> Amount:
        """The amount in the API's form; above its range, the largest number of that form."""
        return Amount.of(min(self.decimal, _MOST))

    @property
    def as_stored(self) -> Self:
        """The money, as exact as the API's form; above its range, the largest number of it."""
        if not _TRILLION % self.exact.denominator and abs(self.exact) <= _MOST:
            return self
        return type(self)(max(min(self.decimal, _MOST), -_MOST))

    def __add__(self, other: Self) -> Self:
        return type(self)(self.exact + self._same(other))

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.exact - self._same(other))

    def __mul__(self, times: Number) -> Self:
        return type(self)(self.exact * _exactly(times))

    def __bool__(self) -> bool:
        return self.exact != 0

    @override
    def __str__(self) -> str:
        """Return it as people write money: to the cent; below a cent, to three digits."""
        size = abs(self.decimal)
        digits = f"{size:.2f}" if size >= Decimal("0.01") or not size else f"{size:.3g}"
        return f"{'-' if self.exact < 0 else ''}${digits}"

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.exact})"

    def _same(self, other: Self) -> Fraction:
        if type(other) is not type(self):
            raise TypeError(f"{self!r} and {other!r} are of different kinds and cannot be added")
        return other.exact


class Usd(_Money):
    """An amount of money; savings may be negative."""

    @property
    def signed_amount(self) -> SignedAmount:
        """The amount in the API's form, which may be negative."""
        return SignedAmount.of(max(min(self.decimal, _MOST), -_MOST))


class UsdPerHour(_Money):
    """A price or a rate of spending."""

    def over(self, seconds: Number) -> Usd:
        """Return the cost of that time at this rate."""
        return Usd(self.exact * _exactly(seconds) / _SECONDS_PER_HOUR)

    def seconds_for(self, usd: Usd) -> Decimal | None:
        """Return how long that money lasts, in microseconds rounded down; None: without end."""
        if self.exact <= 0:
            return None
        return _microseconds(usd.exact / self.exact * _SECONDS_PER_HOUR * 10**6 // 1)

    @override
    def __str__(self) -> str:
        return f"{super().__str__()}/h"


def total_over(parts: Iterable[tuple[UsdPerHour, timedelta]]) -> Usd:
    """Add up several rates, each over its own time.

    It is the sum of what `over` returns for each, but computed in whole numbers as long as no rate
    has more decimal places than the API carries, because a large job has hundreds of rates.
    """
    total: Fraction | int = 0
    for rate, time in parts:
        total += _trillionths(rate.exact) * (time // _MICROSECOND)
    return Usd(Fraction(total, _TRILLION * 10**6 * _SECONDS_PER_HOUR))


def _trillionths(exact: Fraction) -> Fraction | int:
    if _TRILLION % exact.denominator:
        return exact * _TRILLION
    return exact.numerator * (_TRILLION // exact.denominator)


def seconds_between(start: datetime, end: datetime) -> Decimal:
    """Return the exact time from start to end; negative if the end is before the start."""
    return _microseconds((end - start) // _MICROSECOND)


def _exactly(number: Number) -> Fraction:
    if isinstance(number, Fraction):
        return number
    if isinstance(number, float):  # a value typed Any could be one
        raise TypeError(f"money is computed exactly: give a Decimal, not the float {number!r}")
    return Fraction(number)


def _microseconds(count: int) -> Decimal:
    return Decimal(f"{count}E-6")


NO_USD = Usd()
NO_RATE = UsdPerHour()


def decimal_of(rate: UsdPerHour | None) -> Decimal | None:
    """Return a rate as a plain number; None without a rate."""
    return rate.amount.decimal if rate is not None else None
