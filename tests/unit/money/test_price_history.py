from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given

from spotrun.money.ledger import Priced
from spotrun.money.price_history import (
    EVER,
    NodePrice,
    PriceChange,
    PriceHistory,
    Quote,
    history_of,
)
from spotrun.money.units import Usd, UsdPerHour
from tests.unit.money.builders import NOON, after, cost_by, histories, history, moments, per_hour


def pool_price(
    now: str | None = None,
    *recent: tuple[datetime, str],
    as_of: datetime | None = None,
) -> NodePrice:
    return NodePrice(
        usd_per_hour=per_hour(now) if now is not None else None,
        as_of=as_of,
        recent=tuple(PriceChange(time, per_hour(price)) for time, price in recent),
    )


def test_a_span_costs_what_held_in_each_part_of_it() -> None:
    prices = history("1", (after(hours=1), "3"), (after(hours=2), "0.5"))
    cost = cost_by(prices, after(minutes=30), after(minutes=150), Decimal("0.5"))
    assert cost == Priced(Usd(Decimal("0.25") + Decimal("1.5") + Decimal("0.125")))


def test_time_of_unknown_price_is_counted_and_costs_nothing() -> None:
    prices = PriceHistory(((after(hours=1), per_hour("2")), (after(hours=2), None)))
    cost = cost_by(prices, NOON, after(hours=3))
    assert cost == Priced(Usd(2), Decimal(7200))
    assert not cost.is_complete
    assert cost_by(prices, after(hours=1), after(hours=2)).is_complete


@pytest.mark.parametrize("length", [timedelta(0), timedelta(hours=-1)])
def test_no_time_costs_nothing(length: timedelta) -> None:
    assert cost_by(history("1"), NOON, NOON + length) == Priced()
    assert cost_by(PriceHistory(), NOON, NOON + length) == Priced()


def test_a_price_holds_from_its_moment_on() -> None:
    prices = history("1", (NOON, "2"))
    assert prices.at(NOON - timedelta(microseconds=1)) == per_hour("1")
    assert prices.at(NOON) == per_hour("2")
    assert PriceHistory.constant(per_hour("1")).at(EVER) == per_hour("1")
    assert PriceHistory().at(NOON) is None


@given(histories(), moments, moments)
def test_the_cost_of_a_span_is_the_sum_of_its_microseconds(
    prices: PriceHistory, start: datetime, end: datetime
) -> None:
    """Told by an integral that knows nothing of pieces: each change counts to the end of time."""
    usd, unpriced, last = Fraction(0), Fraction(0), None
    for when, price in [(EVER, None), *prices.changes]:
        left = max(end - max(start, when), timedelta(0)) // timedelta(microseconds=1)
        for sign, known in ((-1, last), (1, price)):
            seconds = Fraction(sign * left, 10**6)
            if when == EVER and sign < 0:
                continue
            usd += known.exact * seconds / 3600 if known is not None else 0
            unpriced += seconds if known is None else 0
        last = price
    cost = cost_by(prices, start, end)
    assert (cost.usd.exact, Fraction(cost.unpriced_seconds)) == (usd, unpriced)


def test_a_history_that_goes_backwards_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="ascend"):
        PriceHistory(((after(hours=1), None), (NOON, None)))


HOUR_AGO, NOW = after(hours=-1), NOON


@pytest.mark.parametrize(
    ("price", "changes"),
    [
        (None, ()),
        (pool_price(), ((EVER, None),)),
        # A price without a past has always been so.
        (pool_price("2"), ((EVER, "2"),)),
        (pool_price("2", (HOUR_AGO, "2")), ((EVER, "2"),)),
        (pool_price("2", (HOUR_AGO, "1"), (NOW, "2")), ((EVER, "1"), (NOW, "2"))),
        # What is not in the list yet holds since its source said so.
        (
            pool_price("2", (after(hours=-2), "1"), as_of=HOUR_AGO),
            ((EVER, "1"), (HOUR_AGO, "2")),
        ),
        (pool_price("2", (HOUR_AGO, "1")), ((EVER, "1"), (NOW, "2"))),
        # No longer known: unknown from then on.
        (pool_price(None, (after(hours=-2), "1"), as_of=HOUR_AGO), ((EVER, "1"), (HOUR_AGO, None))),
        # A source whose clock is behind changes nothing in the past.
        (
            pool_price("3", (after(hours=-2), "1"), (NOW, "2"), as_of=HOUR_AGO),
            ((EVER, "1"), (NOW, "2"), (NOW, "3")),
        ),
    ],
)
def test_the_history_of_a_pool_is_what_its_status_holds(
    price: NodePrice | None, changes: tuple[tuple[datetime, str | None], ...]
) -> None:
    wanted = tuple((when, None if p is None else per_hour(p)) for when, p in changes)
    assert history_of(price, NOW).changes == wanted


@pytest.mark.parametrize(
    ("as_of", "good_for", "is_stale"),
    [
        (None, None, False),
        (None, timedelta(minutes=1), False),
        (HOUR_AGO, None, False),
        (HOUR_AGO, timedelta(hours=1), False),
        (HOUR_AGO, timedelta(minutes=59), True),
    ],
)
def test_a_quote_is_stale_when_its_source_should_have_spoken_again(
    as_of: datetime | None, good_for: timedelta | None, *, is_stale: bool
) -> None:
    assert Quote(UsdPerHour(1), "a cloud", as_of, good_for).is_stale(NOW) is is_stale
