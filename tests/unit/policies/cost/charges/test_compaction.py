"""What a large job's money takes of the status, and that it stays exact whatever is left out."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.money.charges import Book, Charge, Charges
from spotrun.money.ledger import Spent
from spotrun.money.price_history import EVER
from spotrun.money.units import UsdPerHour
from spotrun.policies.cost.charges import compaction
from spotrun.policies.cost.charges.compaction import shortened
from spotrun.policies.cost.spent import priced
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago
from tests.support.jobs.largest_job import LargeLife
from tests.support.money.priced_nodes import at_work

MOST_STATUS_BYTES = 400_000


@pytest.mark.parametrize("room_bytes", [compaction.MOST_BYTES, 8_000, 1_000])
@pytest.mark.parametrize("apart", [True, False], ids=["node by node", "all at once"])
def test_a_cost_is_exact_however_little_room_there_is_for_prices(
    room_bytes: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MOST_BYTES", room_bytes)
    life = LargeLife(workers=30, prices=10, apart=apart)
    life.live(days=0.25)
    cost = life.status.cost
    assert life.undecided == 0
    assert cost.usd is not None
    assert cost.usd.decimal == round(life.spent().decimal, 4)


def test_the_status_of_the_largest_job_is_short() -> None:
    life = LargeLife(workers=10_000)
    life.live(days=0.01)
    assert life.undecided == 0
    assert life.status_bytes <= MOST_STATUS_BYTES


def test_a_price_that_changes_all_the_time_makes_the_status_no_longer() -> None:
    lives = [LargeLife(workers=40, prices=2, apart=False) for _ in range(2)]
    for life, days in zip(lives, (0.2, 0.4), strict=True):
        life.live(days)
    assert lives[1].status_bytes <= 1.05 * lives[0].status_bytes


seconds = st.integers(0, 7200)
prices_of = st.lists(
    st.tuples(seconds, st.integers(1, 40), st.sampled_from(("a", "a", "b"))),
    min_size=1,
    max_size=24,
    unique_by=lambda one: one[0],
)


@st.composite
def charges_of(draw: st.DrawFn) -> Charges:
    """Draw the charges of a worker; what was before the first may be in the sums already."""
    prices, is_whole = sorted(draw(prices_of), reverse=True), draw(st.booleans())
    return Charges(
        Charge(EVER if is_whole and not index else ago(s), UsdPerHour(usd), is_spot=True, pool=pool)
        for index, (s, usd, pool) in enumerate(prices)
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(seconds, charges_of(), st.none() | seconds), min_size=1, max_size=8),
    st.sampled_from((100, 500, 3000, 48_000)),
)
def test_what_is_left_out_is_never_below_zero_and_nothing_changes_from_now_on(
    lives: list[tuple[int, Charges, int | None]], room_bytes: int
) -> None:
    job, book = a_job(len(lives)), {}
    for worker_id, (start, charges, end) in enumerate(lives):
        over: dict[str, Any] = {"ended_at": ago(min(start, end))} if end is not None else {}
        job = at_work(job, worker_id, scheduled_at=ago(start), **over)
        book[worker_id] = charges
    starts = {worker_id: ago(start) for worker_id, (start, _, _) in enumerate(lives)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "MOST_BYTES", room_bytes)
        kept = shortened(book, starts, NOW)
    assert {n: one[-1].usd_per_hour for n, one in kept.items()} == {
        n: one[-1].usd_per_hour for n, one in book.items()
    }
    assert all(a.since < b.since for one in kept.values() for a, b in pairwise(one))
    left_out = [_spent(job, book, after) - _spent(job, kept, after) for after in (0, 3600)]
    assert left_out[0] == left_out[1]
    assert left_out[0].usd.decimal >= left_out[0].spot_usd.decimal >= 0
    assert all(usd.decimal >= 0 for usd in left_out[0].by_pool.values())


def _spent(job: JobBuilder, book: Book, after_seconds: float) -> Spent:
    view = job.view(NOW + timedelta(seconds=after_seconds))
    return priced(view, view.job.workers, book)


def test_who_has_earlier_prices_in_the_sums_gets_them_from_nobody_again() -> None:
    now = Charge(ago(600), UsdPerHour(1))
    book: Book = {0: Charges([now]), 1: Charges([Charge(EVER, UsdPerHour(9)), now])}
    assert shortened(book, {0: ago(3600), 1: ago(3600)}, NOW) == book
