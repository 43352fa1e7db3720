"""The availability of a pool: how long a new node takes, and whether it has more nodes."""

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
"""Autoscalers usually bring a node within this time; used until a pool's own time is measured."""
TURNED_DOWN_SECONDS = 20.0
"""Autoscalers look at waiting pods every ten seconds: after two looks, a second autoscaler that may
create a node where the first does not has reported as well."""
DROUGHT_SECONDS = 1800.0
"""A longer wait was a wait for capacity; it does not show how long a machine takes to start."""
_LEAST_PATIENCE_SECONDS = 60.0
_STEP = 1.5


def learn_provisioning(pool: PoolSnapshot, status: PoolState, _now: datetime) -> PoolState:
    """Learn the time within which 19 of 20 nodes come; only this one number is stored.

    A longer time raises it by a half at most, a shorter one lowers it by a 19th of that in the
    logarithm: it settles where one time in twenty is longer.
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
    """Conclude whether the pool has more nodes, by workers that would fit an empty node."""
    retry_at = status.retry_at
    if any(map(pool.is_news, pool.nodes)) and status.as_of is not None:
        return replace(status, available=True, retry_at=None)
    is_resting = retry_at is not None and now < retry_at
    if is_resting:
        return status
    if any(now >= moment for moment in dry_at(pool, status)):
        rest = LONG_REST if retry_at is not None else REST
        return replace(status, available=False, retry_at=now + rest)
    # `retry_at` stays: if the pool is dry again without a node in between, it rests longer.
    return replace(status, available=True if status.available else None)


def dry_at(pool: PoolSnapshot, status: PoolState) -> list[datetime]:
    """Return, for each worker that waits, when its wait shows that the pool is dry."""
    soon = timedelta(seconds=TURNED_DOWN_SECONDS)
    patience = timedelta(seconds=_patience_seconds(status.provision_seconds))
    return [
        *(since + patience for since in _attempts(pool, pool.waiting)),
        *(since + soon for since in _attempts(pool, pool.turned_down)),
    ]


def _patience_seconds(provision_seconds: Decimal | None) -> float:
    """Return how long to wait for a node before a pool counts as dry."""
    if provision_seconds is None:
        return PATIENCE_SECONDS
    return max(float(provision_seconds), _LEAST_PATIENCE_SECONDS)


def _attempts(pool: PoolSnapshot, waiting: Iterable[datetime]) -> list[datetime]:
    """Return since when workers wait in vain: a new node begins another attempt for all of them."""
    newest = max(pool.nodes, default=None)
    return [since if newest is None else max(since, newest) for since in waiting]
