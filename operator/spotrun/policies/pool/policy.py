"""Knowledge of a pool: the next state, from the last one and what was seen since then.

Only the state is remembered: an operator that starts again continues from it. It contains what
happened until `as_of`, so nothing is counted twice.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from spotrun.policies.pool.availability import dry_at, learn_availability, learn_provisioning
from spotrun.policies.pool.interruption_rate import learn_rate
from spotrun.policies.pool.interruptions import DAY, learn_interruptions
from spotrun.policies.pool.lifetimes import add_lives, next_age_at
from spotrun.policies.pool.price import learn_price
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_state import PoolState

EMPTY = timedelta(days=7)
"""A discovered pool that was unused for so long, and that no user has changed, is deleted."""
WRITE_SECONDS = 30.0
LIFETIMES_SECONDS = 600.0
"""The ages of nodes are written only this often."""
_LINE_CHARS = 250

Learn = Callable[[PoolSnapshot, PoolState, datetime], PoolState]
"""Concludes a next state from what was seen and the state as it would be without that."""


def next_pool(pool: PoolSnapshot, now: datetime) -> PoolState:
    """Return the state with all that is known now; equal to the last one if nothing is new."""
    status = pool.status
    for learn in LESSONS:
        status = learn(pool, status, now)
    return status if status == pool.status else replace(status, as_of=now)


def seconds_to_write(pool: PoolSnapshot, new: PoolState) -> float:
    """Return how many seconds a state must wait until it may be written."""
    if pool.status.as_of is None:
        return 0.0
    is_age_only = new == replace(pool.status, lifetimes=new.lifetimes, as_of=new.as_of)
    pause_seconds = LIFETIMES_SECONDS if is_age_only else WRITE_SECONDS
    return max(pause_seconds - pool.written_seconds, 0.0)


def is_forgotten(pool: PoolSnapshot, now: datetime) -> bool:
    """Whether a pool that was discovered is no longer of use to any job."""
    since = pool.status.empty_since
    if not pool.is_ours or pool.nodes or pool.workers or pool.is_asked or since is None:
        return False
    return now - since >= EMPTY


def wake_after_seconds(pool: PoolSnapshot, status: PoolState, now: datetime) -> float:
    """Return the seconds until time alone changes something."""
    moments = [next_age_at(born_at, now) for born_at in pool.nodes]
    moments += [one.time + DAY for one in status.interruptions]
    moments += dry_at(pool, status)
    moments.append(status.retry_at)
    moments.append(pool.quote.stale_at if pool.quote is not None else None)
    if pool.is_ours and status.empty_since is not None:
        moments.append(status.empty_since + EMPTY)
    waits = ((moment - now).total_seconds() for moment in moments if moment is not None)
    return min((wait for wait in waits if wait > 0), default=float("inf"))


def _count(pool: PoolSnapshot, status: PoolState, now: datetime) -> PoolState:
    """Count the nodes and workers that are there now."""
    empty_since = None if pool.nodes else status.empty_since or now
    return replace(
        status,
        types=_in_a_line(pool.spec.instance_types),
        zones=_in_a_line(pool.spec.zones),
        nodes=len(pool.nodes),
        workers=pool.workers,
        node=pool.node or status.node,
        empty_since=empty_since,
    )


def _ages(pool: PoolSnapshot, status: PoolState, now: datetime) -> PoolState:
    """Add to how long nodes live."""
    lifetimes = add_lives(status.lifetimes, pool.lives, status.as_of, now)
    return replace(status, lifetimes=lifetimes)


LESSONS: tuple[Learn, ...] = (
    _count,  # which nodes and workers are there?
    learn_price,  # what does a node cost?
    learn_provisioning,  # how long does a new node take?
    learn_availability,  # has the pool more nodes?
    learn_interruptions,  # which nodes were taken away?
    learn_rate,  # how often is a node taken?
    _ages,  # how old do nodes become?
)


def _in_a_line(names: tuple[str, ...] | None) -> str | None:
    line = ",".join(names or ())
    return (line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}...") or None
