"""Prices, moments and segments for tests of money."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import strategies as st

from spotrun.money.ledger import Priced, Segment, cost
from spotrun.money.price_history import EVER, PriceHistory
from spotrun.money.units import UsdPerHour

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def after(**length: float) -> datetime:
    """A moment after noon."""
    return NOON + timedelta(**length)


def per_hour(text: str) -> UsdPerHour:
    return UsdPerHour(Decimal(text))


def history(first: str, *changes: tuple[datetime, str | None]) -> PriceHistory:
    """A price since ever, and what it changed to when."""
    later = tuple((when, None if text is None else per_hour(text)) for when, text in changes)
    return PriceHistory(((EVER, per_hour(first)), *later))


def segment(
    minutes: float | None = 60,
    *,
    share: str = "1",
    start: datetime = NOON,
    prices: PriceHistory | None = None,
    worker_id: int = 0,
) -> Segment:
    """A worker that was on a node of $1/h; without minutes it still is."""
    end = None if minutes is None else start + timedelta(minutes=minutes)
    return Segment(worker_id, start, end, Decimal(share), prices or history("1"))


def cost_by(
    prices: PriceHistory, start: datetime, end: datetime, share: Decimal = Decimal(1)
) -> Priced:
    """Return the cost of a share of a node of these prices from start to end."""
    return cost([Segment(0, start, end, share, prices)], end)


prices_per_hour = st.decimals(min_value=0, max_value=1000, places=12).map(UsdPerHour)
shares = st.decimals(min_value=0, max_value=1, places=28)
moments = st.integers(min_value=0, max_value=10**11).map(lambda n: NOON + timedelta(microseconds=n))


@st.composite
def histories(draw: st.DrawFn) -> PriceHistory:
    """Any history: known or unknown at first and in between."""
    whens = sorted(draw(st.lists(moments, max_size=5)))
    prices = [draw(st.none() | prices_per_hour) for _ in whens]
    return PriceHistory(tuple(zip(whens, prices, strict=True)))


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Any segment: also one that goes on, and one whose clocks disagree about what came first."""
    end = draw(st.none() | moments)
    return Segment(0, draw(moments), end, draw(shares), draw(histories()))
