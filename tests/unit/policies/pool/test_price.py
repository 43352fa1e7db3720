"""The price of a pool's node, and when a change of it is written down."""

from dataclasses import replace
from datetime import timedelta

from spotrun.money.price_history import NodePrice, PriceChange, Quote
from spotrun.policies.pool.policy import (
    next_pool,
    wake_after_seconds,
)
from spotrun.state.stored.pools.pool_state import PoolState
from tests.support.jobs.builders import NOW, ago
from tests.support.money.learned_pools import HOUR, a_pool, a_quote, after, usd


def test_a_price_is_written_down_when_it_changes() -> None:
    said_at = ago(HOUR)
    first = after(a_pool(quote=a_quote("0.42", said_at)), quote=a_quote("0.42", said_at))
    assert first.status.price is not None
    assert first.status.price.usd_per_hour == usd("0.42")
    assert first.status.price.source == "a price table"
    assert next_pool(first, NOW) == first.status
    dearer = next_pool(a_pool(status=first.status, quote=a_quote("0.5")), NOW).price
    assert dearer is not None
    assert dearer.recent == (PriceChange(ago(60), usd("0.42")), PriceChange(NOW, usd("0.5")))


def test_a_price_that_nobody_knows_any_more_is_unknown_but_not_forgotten() -> None:
    pool = after(a_pool(quote=a_quote("0.42")))
    price = next_pool(pool, NOW).price
    assert price is not None
    assert price.usd_per_hour is None
    assert price.recent == (PriceChange(ago(60), usd("0.42")),)


def said(seconds_ago: float, usd_per_hour: str = "0.42") -> Quote:
    """What a live source says, which has to speak every quarter of an hour."""
    quote = a_quote(usd_per_hour, ago(seconds_ago))
    return replace(quote, good_for=timedelta(minutes=15))


def test_a_pool_of_unknown_price_names_the_command_that_gives_it_one() -> None:
    unknown = next_pool(a_pool(name="spot-box"), NOW)
    command = """kubectl patch cpool spot-box --type=merge -p '{"spec":{"usdPerHour":"<USD>"}}'"""
    assert unknown.unpriced == command
    known = next_pool(a_pool(name="spot-box", status=unknown, quote=a_quote("0.42")), NOW)
    assert known.unpriced is None
    lost = next_pool(a_pool(name="spot-box", status=known), NOW)
    assert lost.unpriced == command


def price_after(*quotes: tuple[Quote, float]) -> NodePrice:
    """What is written down after looks so many seconds ago."""
    status = PoolState()
    for quote, seconds_ago in quotes:
        status = next_pool(a_pool(status=status, quote=quote), ago(seconds_ago))
    assert status.price is not None
    return status.price


def test_that_a_source_says_the_same_again_is_written_down_every_ten_minutes() -> None:
    first = (said(1200), 1200)
    assert price_after(first, (said(601), 601)).as_of == ago(1200)
    assert price_after(first, (said(600), 600)).as_of == ago(600)
    assert price_after(first, (said(601, "0.5"), 601)).as_of == ago(601)


def test_a_price_is_stale_while_its_source_is_silent_and_counts_on() -> None:
    quote = said(900)
    fresh, stale = price_after((quote, 0)), price_after((quote, 0), (quote, -1))
    assert (fresh.is_stale, stale.is_stale) == (False, True)
    assert stale.usd_per_hour == fresh.usd_per_hour
    spoken = price_after((quote, 0), (quote, -1), (said(-2), -2))
    assert (spoken.is_stale, spoken.as_of) == (False, ago(-2))


def test_when_a_price_becomes_stale_is_a_moment_to_look_again() -> None:
    pool = a_pool(quote=said(840))
    assert wake_after_seconds(pool, next_pool(pool, NOW), NOW) == 60


def test_prices_are_kept_in_bounds() -> None:
    pool = a_pool()
    for number in range(300):
        status = next_pool(a_pool(status=pool.status, quote=a_quote(f"0.{number + 1}")), NOW)
        pool = a_pool(status=status)
    assert pool.status.price is not None
    assert len(pool.status.price.recent) == 256
