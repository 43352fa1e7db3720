"""How long nodes live: what is counted, once, and what is never assumed."""

from datetime import datetime, timedelta

from spotrun.policies.pool.lifetimes import MOST_REACHED, Life, add_lives, next_age_at
from spotrun.state.stored.pools.pool_codec import write_lifetimes
from spotrun.state.stored.pools.pool_state import AtAge, Lifetimes
from tests.support.jobs.builders import NOW, ago


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def counted(life: Life, since: datetime | None) -> str:
    """Return the lifetimes that are counted of one node, as a status has them."""
    return write_lifetimes(add_lives({}, [life], since, NOW))


def test_a_node_counts_at_every_age_that_it_reaches_while_it_is_watched() -> None:
    assert counted(Life(ago(3600 * 4)), NOW - hours(5)) == "0m 0/1, 15m 0/1, 1h 0/1, 3h 0/1"


def test_a_node_that_is_taken_is_lost_from_the_last_age_that_it_reached() -> None:
    life = Life(NOW - hours(2), NOW - hours(0.5), taken=True)
    assert counted(life, NOW - hours(3)) == "0m 0/1, 15m 0/1, 1h 1/1"


def test_a_node_that_is_given_back_was_not_taken_at_its_age() -> None:
    life = Life(NOW - hours(2), NOW - hours(0.5))
    assert counted(life, NOW - hours(3)) == "0m 0/1, 15m 0/1, 1h 0/1"


def test_of_a_node_that_is_first_seen_in_mid_life_the_ages_before_say_nothing() -> None:
    assert counted(Life(NOW - hours(30)), None) == "24h 0/1"


def test_nothing_is_counted_twice() -> None:
    lives = [
        Life(NOW - hours(2)),
        Life(NOW - hours(4), NOW - hours(0.5), taken=True),
    ]
    early = NOW - hours(5)
    at_once = add_lives({}, lives, early, NOW)
    in_parts: Lifetimes = {}
    moments = [early + timedelta(minutes=7 * step) for step in range(43)]
    for since, until in zip(moments, [*moments[1:], NOW], strict=True):
        seen = [one for one in lives if one.born_at <= until]
        in_parts = add_lives(in_parts, seen, since, until)
    assert in_parts == at_once


def test_what_was_long_ago_fades() -> None:
    known = {"0m": AtAge(9, MOST_REACHED)}
    assert add_lives(known, [Life(NOW)], NOW - hours(1), NOW)["0m"] == AtAge(5, 251)


def test_when_a_node_reaches_its_next_age() -> None:
    assert next_age_at(NOW - hours(2), NOW) == NOW + hours(1)
    assert next_age_at(NOW - hours(49), NOW) is None
