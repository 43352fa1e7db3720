"""The availability of a pool: how long a new node takes, and whether there are more."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_state import PoolState

REST = timedelta(minutes=10)
LONG_REST = timedelta(minutes=30)
"""Only 16-28 % of lost capacity is back after ten minutes, and half of it after an hour."""
PATIENCE_SECONDS = 600.0
"""Autoscalers bring a node within this, as a rule; it holds until a pool has shown its own time."""
TURNED_DOWN_SECONDS = 20.0
"""Autoscalers look at what waits every ten seconds: after two looks another one, which may make the
node that the first does not, has said so, too."""
DROUGHT_SECONDS = 1800.0
"""A longer wait was a wait for capacity; it says nothing about how long a machine takes to
start."""
_LEAST_PATIENCE_SECONDS = 60.0
_STEP = 1.5


def learn_provisioning(pool: PoolSnapshot, status: PoolState, _now: datetime) -> PoolState:
    """Learn the time in which 19 of 20 nodes come, one by one with a single number.

    A longer one raises it by a half at most, a shorter one lowers it by a 19th of that in the
    logarithm: it comes to rest where one in twenty is longer.
    """
    learned = status.provision_seconds
    p95 = float(learned) if learned is not None else None
    for at, seconds in pool.provisioned:
        if not pool.is_news(at) or seconds > DROUGHT_SECONDS:
            continue
        if p95 is None:
            p95 = seconds
        elif seconds > p95:
            p95 = min(seconds, p95 * _STEP)
        else:
            p95 = max(seconds, p95 / _STEP ** (1 / 19))
    return status if p95 is None else replace(status, provision_seconds=Decimal(round(p95)))


def learn_availability(pool: PoolSnapshot, status: PoolState, now: datetime) -> PoolState:
    """Conclude whether more can be had; only who would fit an empty node can tell."""
    retry_at = status.retry_at
    if any(map(pool.is_news, pool.nodes)) and status.as_of is not None:
        return replace(status, available=True, retry_at=None)
    is_resting = retry_at is not None and now < retry_at
    if is_resting:
        return status
    if any(now >= moment for moment in dry_at(pool, status)):
        rest = LONG_REST if retry_at is not None else REST
        return replace(status, available=False, retry_at=now + rest)
    # When it was asked last is kept: dry again without a node in between, it rests longer.
    return replace(status, available=True if status.available else None)


def dry_at(pool: PoolSnapshot, status: PoolState) -> list[datetime]:
    """Return when it follows, from each worker that waits, that there are no more nodes."""
    soon = timedelta(seconds=TURNED_DOWN_SECONDS)
    patience = timedelta(seconds=_patience_seconds(status.provision_seconds))
    return [
        *(since + patience for since in _attempts(pool, pool.waiting)),
        *(since + soon for since in _attempts(pool, pool.turned_down)),
    ]


def _patience_seconds(provision_seconds: Decimal | None) -> float:
    """Return how long to wait for a node before a pool is taken to be dry."""
    if provision_seconds is None:
        return PATIENCE_SECONDS
    return max(float(provision_seconds), _LEAST_PATIENCE_SECONDS)


def _attempts(pool: PoolSnapshot, waiting: Iterable[datetime]) -> list[datetime]:
    """Return since when they wait in vain: a new node begins another attempt for all who do."""
    newest = max(pool.nodes, default=None)
    return [since if newest is None else max(since, newest) for since in waiting]
