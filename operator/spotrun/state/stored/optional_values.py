"""The storage format of moments, numbers and sets of worker numbers that may be absent."""

from datetime import datetime
from decimal import Decimal

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.intervals import NO_NUMBERS, Ranges
from spotrun.api.field_types.text_values import Intervals, Time, WorkerIds


def moment_of(time: Time | None) -> datetime | None:
    """Read a time; None where there is none."""
    return time.datetime if time is not None else None


def time_of(moment: datetime | None) -> Time | None:
    """Write a moment; None where there is none."""
    return Time.of(moment) if moment is not None else None


def decimal_of(amount: Amount | None) -> Decimal | None:
    """Read a number; None where there is none."""
    return amount.decimal if amount is not None else None


def amount_of(number: Decimal | None) -> Amount | None:
    """Write a number; None where there is none."""
    return Amount.of(number) if number is not None else None


def digits_of(number: Decimal | None) -> Amount | None:
    """Write a number with all its digits, including trailing zeros; None where there is none."""
    return Amount(f"{number:f}") if number is not None else None


def ordered(worker_ids: WorkerIds | None) -> tuple[int, ...]:
    """Return the numbers in the order written; none where there is nothing."""
    return worker_ids.numbers if worker_ids is not None else ()


def numbers(worker_ids: WorkerIds | None) -> frozenset[int]:
    """Return the numbers as a set."""
    return worker_ids.set if worker_ids is not None else frozenset()


def ranges(settled: Intervals | None) -> Ranges:
    """Return the numbers as a set that may have millions of members."""
    return settled.ranges if settled is not None else NO_NUMBERS
