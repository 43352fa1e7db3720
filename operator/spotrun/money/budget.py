"""The arithmetic of a budget: how much is used, which levels were passed, when to stop.

A limit is kept by stopping before it: the cost of the last checkpoint and of the end of the workers
is reserved, and the time to stop is computed as if the job were about to cost more per hour.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from spotrun.api.field_types.amounts import Percent
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour

HEADROOM = Decimal("1.2")
"""The factor by which the rate may rise, by prices or new workers, before the next pass."""
_MOST_PERCENT = 999_999  # the maximum of Percent


def used_percent(spent: Usd, limit: Usd) -> Percent:
    """Return the spent part of the limit in whole percent, rounded down: 100% only if all is."""
    return Percent(f"{min(int(100 * spent.exact / limit.exact), _MOST_PERCENT)}%")


def levels_crossed(before: Usd, after: Usd, limit: Usd, levels: Iterable[int]) -> tuple[int, ...]:
    """Return the levels, in percent of the limit, that lie between two sums."""
    return tuple(
        level
        for level in levels
        if before.exact < limit.exact * Fraction(level, 100) <= after.exact
    )


def reserve(rate: UsdPerHour, checkpoint_seconds: Decimal, shutdown_seconds: Decimal) -> Usd:
    """Return the part of the budget that pays the last checkpoint and the end of all workers."""
    return (rate * HEADROOM).over(checkpoint_seconds + shutdown_seconds)


def stop_at(
    *, limit: Usd, spent: Usd, reserved: Usd, rate: UsdPerHour, now: datetime
) -> datetime | None:
    """Return when the job must stop to keep its limit if no operator runs until then.

    None: after the last year that a date can have, for example if nothing is being spent.
    """
    left = max(limit - spent - reserved, NO_USD)
    seconds = (rate * HEADROOM).seconds_for(left)
    if seconds is None:
        return None
    try:
        return now + timedelta(microseconds=int(seconds.scaleb(6)))
    except OverflowError:
        return None


def affordable(limit: UsdPerHour, rates: Sequence[UsdPerHour]) -> int:
    """Return how many workers, in the order given, stay within a limit per hour together."""
    total, count = NO_RATE, 0
    for rate in rates:
        total += rate
        if total > limit:
            break
        count += 1
    return count
