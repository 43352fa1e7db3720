"""Nodes that were taken: counted once, and together where they went together."""

import pytest

from spotrun.policies.pool.lifetimes import Life
from spotrun.policies.pool.policy import (
    next_pool,
    wake_after_seconds,
)
from spotrun.state.stored.pools.pool_state import PoolState
from tests.support.jobs.builders import NOW, ago, later
from tests.support.money.learned_pools import HOUR, a_pool, after


def test_nodes_that_are_taken_together_are_one_interruption() -> None:
    taken = tuple(Life(ago(6 * HOUR), ago(20 - n), taken=True) for n in range(8))
    status = next_pool(a_pool(lives=taken), NOW)
    assert status.interruptions_24h == 1
    (one,) = status.interruptions
    assert (one.time, one.nodes) == (ago(20), 8)
    assert float(one.node_hours) == pytest.approx(48, abs=0.1)
    later_one = Life(ago(6 * HOUR), later(400), taken=True)
    again = next_pool(a_pool(status=status, lives=(later_one,)), later(401))
    assert again.interruptions_24h == 2


def test_what_a_status_holds_is_not_counted_again() -> None:
    lost = (Life(ago(6 * HOUR), ago(20), taken=True),)
    pool = after(a_pool(status=PoolState(as_of=ago(90))), 10, lives=lost)
    assert next_pool(pool, NOW).interruptions_24h == 0
    fresh = a_pool(lives=lost)
    assert next_pool(fresh, NOW).interruptions_24h == 1
    again = a_pool(status=next_pool(fresh, NOW), lives=lost)
    assert next_pool(again, later(60)).interruptions_24h == 1


def test_what_people_gave_back_was_not_taken() -> None:
    assert next_pool(a_pool(lives=(Life(ago(HOUR), ago(1)),)), NOW).interruptions_24h == 0


def test_after_a_day_an_interruption_no_longer_counts_and_the_last_is_remembered() -> None:
    first = next_pool(a_pool(lives=(Life(ago(HOUR), ago(20), taken=True),)), NOW)
    pool = a_pool(status=first)
    assert wake_after_seconds(pool, first, later(86_000)) == pytest.approx(380)
    status = next_pool(pool, later(86_381))
    assert status.interruptions_24h == 0
    assert len(status.interruptions) == 1
