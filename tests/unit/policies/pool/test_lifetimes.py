"""How long nodes live: what is counted, once, and what is never assumed."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.policies.pool.lifetimes import AGES, MOST_REACHED, AtAge, Life, Lifetimes, next_age_at
from tests.support.jobs.builders import NOW, ago


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def test_a_node_counts_at_every_age_that_it_reaches_while_it_is_watched() -> None:
    known = Lifetimes().observe([Life(ago(3600 * 4))], NOW - hours(5), NOW)
    assert str(known) == "0m 0/1, 15m 0/1, 1h 0/1, 3h 0/1"


def test_a_node_that_is_taken_is_lost_from_the_last_age_that_it_reached() -> None:
    life = Life(NOW - hours(2), NOW - hours(0.5), taken=True)
    assert str(Lifetimes().observe([life], NOW - hours(3), NOW)) == "0m 0/1, 15m 0/1, 1h 1/1"


def test_a_node_that_is_given_back_was_not_taken_at_its_age() -> None:
    life = Life(NOW - hours(2), NOW - hours(0.5))
    assert str(Lifetimes().observe([life], NOW - hours(3), NOW)) == "0m 0/1, 15m 0/1, 1h 0/1"


def test_of_a_node_that_is_first_seen_in_mid_life_the_ages_before_say_nothing() -> None:
    assert str(Lifetimes().observe([Life(NOW - hours(30))], None, NOW)) == "24h 0/1"


def test_nothing_is_counted_twice() -> None:
    lives = [
        Life(NOW - hours(2)),
        Life(NOW - hours(4), NOW - hours(0.5), taken=True),
    ]
    early = NOW - hours(5)
    at_once = Lifetimes().observe(lives, early, NOW)
    in_parts = Lifetimes()
    moments = [early + timedelta(minutes=7 * step) for step in range(43)]
    for since, until in zip(moments, [*moments[1:], NOW], strict=True):
        seen = [one for one in lives if one.born_at <= until]
        in_parts = in_parts.observe(seen, since, until)
    assert in_parts == at_once


def test_what_was_long_ago_fades() -> None:
    known = Lifetimes({"0m": AtAge(9, MOST_REACHED)})
    assert known.observe([Life(NOW)], NOW - hours(1), NOW).ages["0m"] == AtAge(5, 251)


@pytest.mark.parametrize("text", ["", "0m", "0m x/3", "9m 1/2", "0m -1/2", "0m 1/2/3", ", ,"])
def test_what_cannot_be_read_is_passed_over(text: str) -> None:
    assert Lifetimes.read(text) == Lifetimes()


@given(
    st.dictionaries(st.sampled_from(list(AGES)), st.tuples(st.integers(0, 99), st.integers(1, 999)))
)
@settings(max_examples=50)
def test_it_is_read_as_it_was_written(found: dict[str, tuple[int, int]]) -> None:
    known = Lifetimes({age: AtAge(*counts) for age, counts in found.items()})
    assert Lifetimes.read(str(known)).ages == dict(known.ages)


def test_when_a_node_reaches_its_next_age() -> None:
    assert next_age_at(NOW - hours(2), NOW) == NOW + hours(1)
    assert next_age_at(NOW - hours(49), NOW) is None
