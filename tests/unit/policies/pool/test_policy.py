"""A pool's next state: what it says, and when it is written."""

import json
from datetime import timedelta

from spotrun.api.capacitypool import CapacityPoolStatus
from spotrun.policies.pool.lifetimes import Life
from spotrun.policies.pool.policy import (
    EMPTY,
    LIFETIMES_SECONDS,
    WRITE_SECONDS,
    is_forgotten,
    next_pool,
    seconds_to_write,
    wake_after_seconds,
)
from spotrun.state.stored.pools.pool_codec import read, write
from spotrun.state.stored.pools.pool_state import AtAge, PoolState
from tests.support.jobs.builders import NOW, ago, later
from tests.support.money.learned_pools import HOUR, NODE, a_pool, a_quote, after


def test_what_is_there_is_counted_and_described() -> None:
    pool = a_pool(lives=(Life(ago(HOUR)), Life(ago(9 * HOUR))), workers=3)
    status = next_pool(pool, NOW)
    assert (status.nodes, status.workers, status.node) == (2, 3, NODE)
    assert (status.types, status.zones) == ("g5.xlarge", "us-east-1b")
    assert status.as_of == NOW
    assert status.empty_since is None


def test_nothing_new_is_no_new_status() -> None:
    pool = after(a_pool(lives=(Life(ago(9 * HOUR)),)), lives=(Life(ago(9 * HOUR)),))
    assert next_pool(pool, NOW) == pool.status


def test_what_is_stored_is_what_was_decided() -> None:
    lives = (Life(ago(HOUR)), Life(ago(9 * HOUR), ago(20), taken=True))
    facts = {"lives": lives, "quote": a_quote("0.42", ago(HOUR)), "provisioned": ((ago(5), 91.4),)}
    status = next_pool(a_pool(**facts, waiting=(ago(2 * HOUR),)), NOW)
    content = json.dumps(write(status).manifest())
    stored = read(CapacityPoolStatus.model_validate_json(content, by_alias=True, by_name=False))
    assert stored == status
    again = a_pool(**facts, waiting=(ago(2 * HOUR),), status=stored)
    assert next_pool(again, later(1)) == stored


def test_what_a_node_has_is_remembered_when_the_last_one_is_gone() -> None:
    status = next_pool(after(a_pool(lives=(Life(ago(HOUR)),)), node=None), NOW)
    assert (status.nodes, status.node, status.empty_since) == (0, NODE, NOW)


def test_writes_are_rare() -> None:
    pool = a_pool(lives=(Life(ago(HOUR)),), written_seconds=10)
    new = next_pool(pool, NOW)
    assert seconds_to_write(pool, new) == WRITE_SECONDS - 10
    assert seconds_to_write(a_pool(status=PoolState(), written_seconds=10), new) == 0


def test_that_nodes_become_older_is_hardly_news() -> None:
    status = next_pool(a_pool(lives=(Life(ago(890)),)), NOW)
    pool = a_pool(status=status, lives=(Life(ago(890)),), written_seconds=60)
    older = next_pool(pool, later(30))
    assert older.lifetimes == {"15m": AtAge(0, 1)}
    assert seconds_to_write(pool, older) == LIFETIMES_SECONDS - 60


def test_a_pool_that_was_found_is_forgotten_after_a_week_without_a_node() -> None:
    status = next_pool(a_pool(), NOW)
    pool = a_pool(status=status)
    almost = NOW + EMPTY - timedelta(seconds=5)
    assert not is_forgotten(pool, almost)
    assert wake_after_seconds(pool, status, almost) == 5
    assert is_forgotten(pool, NOW + EMPTY)
    for why in ({"is_ours": False}, {"is_asked": True}, {"lives": (Life(NOW),)}, {"workers": 1}):
        assert not is_forgotten(a_pool(status=status, **why), NOW + EMPTY), why
