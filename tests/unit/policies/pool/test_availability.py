"""How long a node takes, and when a pool is taken to be dry."""

from datetime import datetime
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.policies.pool.availability import PATIENCE_SECONDS, TURNED_DOWN_SECONDS
from spotrun.policies.pool.lifetimes import Life
from spotrun.policies.pool.policy import (
    next_pool,
    wake_after_seconds,
)
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_state import PoolState
from tests.support.jobs.builders import NOW, ago, later
from tests.support.money.learned_pools import HOUR, a_pool


def available(pool: PoolSnapshot, now: datetime = NOW) -> tuple[bool | None, datetime | None]:
    status = next_pool(pool, now)
    return status.available, status.retry_at


def test_nothing_is_said_of_what_was_never_asked_for() -> None:
    assert available(a_pool(lives=(Life(ago(HOUR)),))) == (None, None)


def test_a_new_node_shows_that_there_are_more() -> None:
    assert available(a_pool(lives=(Life(ago(30)),))) == (True, None)


def test_a_pool_is_dry_when_who_would_fit_has_waited_in_vain() -> None:
    waits = a_pool(waiting=(ago(PATIENCE_SECONDS - 1),))
    assert available(waits) == (None, None)
    assert wake_after_seconds(waits, next_pool(waits, NOW), NOW) == 1
    dry = a_pool(waiting=(ago(PATIENCE_SECONDS),))
    assert available(dry) == (False, later(600))


def test_a_pool_is_dry_soon_where_autoscalers_will_make_no_node() -> None:
    def turned_down(seconds: float) -> PoolSnapshot:
        return a_pool(waiting=(ago(seconds),), turned_down=(ago(seconds),))

    early = turned_down(TURNED_DOWN_SECONDS - 1)
    assert available(early) == (None, None), "another one may yet make it"
    assert wake_after_seconds(early, next_pool(early, NOW), NOW) == 1
    assert available(turned_down(TURNED_DOWN_SECONDS)) == (False, later(600))


def test_a_node_that_came_since_speaks_against_a_refusal() -> None:
    since = (ago(60),)
    pool = a_pool(
        status=PoolState(as_of=ago(5)),
        lives=(Life(ago(10)),),
        waiting=since,
        turned_down=since,
    )
    assert available(pool)[0] is None


def test_who_would_fit_no_node_says_nothing_of_the_pool() -> None:
    assert available(a_pool(is_asked=True)) == (None, None)


def test_it_is_waited_as_long_as_nodes_took_here() -> None:
    status = PoolState(as_of=ago(60), provision_seconds=Decimal(90))
    assert available(a_pool(status=status, waiting=(ago(89),)))[0] is None
    assert available(a_pool(status=status, waiting=(ago(90),)))[0] is False


def test_a_node_that_came_for_another_begins_the_wait_anew() -> None:
    pool = a_pool(lives=(Life(ago(100)),), waiting=(ago(PATIENCE_SECONDS + 1),))
    assert available(pool)[0] is None


def test_a_dry_pool_rests_and_longer_when_it_is_dry_again() -> None:
    waiting = (ago(HOUR),)
    dry = a_pool(status=next_pool(a_pool(waiting=waiting), ago(601)), waiting=waiting)
    assert dry.status.available is False
    assert available(dry, ago(10)) == (False, ago(1)), "it rests"
    assert available(dry) == (False, later(1800))
    asked_again = a_pool(status=dry.status)
    assert available(asked_again)[0] is None, "nobody asks, so nobody knows"


def test_a_node_ends_the_rest_of_a_dry_pool() -> None:
    status = next_pool(a_pool(waiting=(ago(HOUR),)), ago(120))
    assert available(a_pool(status=status, lives=(Life(ago(30)),))) == (True, None)


@given(st.lists(st.floats(30, 900), min_size=200, max_size=200))
@settings(max_examples=20)
def test_one_in_twenty_nodes_takes_longer(waits: list[float]) -> None:
    times = tuple((NOW, seconds) for seconds in waits * 3)
    learned = next_pool(a_pool(provisioned=times), NOW).provision_seconds
    assert learned is not None
    assert sorted(waits)[150] * 0.6 <= float(learned) <= max(waits)


def test_the_time_that_nodes_take_is_counted_once() -> None:
    pool = a_pool(provisioned=((ago(30), 120.0), (ago(90), 900.0)))
    assert next_pool(pool, NOW).provision_seconds == 120


def test_a_drought_is_not_the_time_that_a_machine_takes() -> None:
    pool = a_pool(provisioned=((ago(30), 120.0), (ago(20), 3 * HOUR)))
    assert next_pool(pool, NOW).provision_seconds == 120
