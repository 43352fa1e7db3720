from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.charges import Charge, Charges, grouped
from spotrun.money.ledger import Ledger, Priced, Segment, Spent, cost, idle
from spotrun.money.price_history import EVER, PriceHistory
from spotrun.money.units import Usd, UsdPerHour
from tests.unit.money.builders import (
    NOON,
    after,
    history,
    moments,
    per_hour,
    prices_per_hour,
    segment,
    segments,
)


def test_workers_that_ended_and_workers_that_run_are_one_sum() -> None:
    held = [segment(90), segment(None, share="0.5", start=after(hours=1))]
    assert cost(held, after(hours=2)) == Priced(Usd(2))


def test_a_price_change_counts_from_its_moment() -> None:
    dearer = history("1", (after(minutes=30), "3"))
    assert cost([segment(60, prices=dearer)], after(hours=9)) == Priced(Usd(2))


def test_a_worker_whose_clocks_disagree_costs_nothing() -> None:
    assert cost([segment(-5)], after(hours=1)) == Priced()


def test_an_unknown_price_is_no_price_of_zero() -> None:
    unknown = segment(60, prices=PriceHistory())
    assert cost([unknown, segment(60)], after(hours=1)) == Priced(Usd(1), Decimal(3600))


def split(whole: Segment, moment: datetime) -> tuple[Segment, ...]:
    if moment < whole.start or (whole.end is not None and moment >= whole.end):
        return (whole,)
    return replace(whole, end=moment), replace(whole, start=moment)


@given(segments(), moments, moments)
def test_splitting_a_segment_changes_nothing(
    whole: Segment, moment: datetime, until: datetime
) -> None:
    assert cost(split(whole, moment), until) == cost([whole], until)


@given(st.lists(segments(), max_size=4), moments, moments)
def test_the_sum_never_falls(held: list[Segment], one: datetime, other: datetime) -> None:
    sooner, later = sorted([one, other])
    before, after_that = cost(held, sooner), cost(held, later)
    assert before.usd <= after_that.usd
    assert before.unpriced_seconds <= after_that.unpriced_seconds


@given(st.lists(segments(), max_size=4), moments)
def test_computing_again_after_a_crash_comes_to_the_same(
    held: list[Segment], until: datetime
) -> None:
    settled = cost([s for s in held if s.end is not None], until)
    running = cost([s for s in held if s.end is None], until)
    assert settled + running == cost(reversed(held), until)


def test_idle_is_what_a_node_cost_beyond_its_workers() -> None:
    node = segment(None)
    workers = [segment(60, share="0.25"), segment(60, share="0.25", start=after(minutes=30))]
    assert idle(node, workers, after(hours=2)) == Usd(Decimal("1.5"))
    assert idle(node, [], after(hours=2)) == Usd(2)
    assert idle(segment(60), [segment(60)], after(hours=2)) == Usd()


def test_a_worker_that_outlives_its_node_on_paper_uses_no_more_than_the_node() -> None:
    late = segment(60, start=after(minutes=-30), share="0.5")
    assert idle(segment(20), [late], after(hours=2)) == per_hour("0.5").over(20 * 60)
    crowded = [segment(60), segment(60)]
    assert idle(segment(60), crowded, after(hours=2)) == Usd()


def charges(history: PriceHistory) -> Charges:
    known = [Charge(moment, price) for moment, price in history.changes if price is not None]
    return Charges(known)


@given(st.lists(moments, max_size=5), st.lists(prices_per_hour, min_size=6), moments, moments)
def test_charges_of_a_worker_and_the_price_of_its_node_come_to_the_same(
    changed: list[datetime], prices: list[UsdPerHour], start: datetime, end: datetime
) -> None:
    history = PriceHistory(tuple(zip((EVER, *sorted(changed)), prices, strict=False)))
    noted, shared = Ledger(), Ledger()
    noted.add(charges(history), start, end)
    shared.add_share(history, Decimal(1), start, end)
    assert noted.total() == shared.total()


def test_charges_are_told_apart_by_value() -> None:
    one, same = (Charges([Charge(EVER, per_hour("1"))]) for _ in range(2))
    assert grouped({1: one, 0: same, 2: Charges([Charge(NOON, per_hour("1"))])}) == {
        one: [0, 1],
        Charges([Charge(NOON, per_hour("1"))]): [2],
    }


def test_spot_and_each_pool_have_their_part_of_the_sum() -> None:
    ledger = Ledger()
    charge = Charge(EVER, per_hour("1"), is_spot=True, pool="a")
    ledger.add(Charges([charge, Charge(after(hours=1), per_hour("2"))]), NOON, after(hours=2))
    assert ledger.total() == Spent(Usd(3), Usd(1), {"a": Usd(1), "": Usd(2)})
