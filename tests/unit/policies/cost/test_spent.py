"""The cost of workers: of each from its start to its end, or until now."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.charges import Book, Charge, Charges
from spotrun.money.price_history import EVER
from spotrun.money.units import NO_USD, Usd, UsdPerHour
from spotrun.policies.cost.spent import priced, priced_by, spent_between
from tests.support.jobs.builders import NOW, a_job, ago, later
from tests.support.money.priced_nodes import at_work, ended

AT_A_DOLLAR = Charges([Charge(EVER, UsdPerHour(1), False, "")])
DEARER_SINCE = Charges([*AT_A_DOLLAR, Charge(ago(1800), UsdPerHour(3), False, "")])
WORKERS = tuple(at_work(a_job(2), 0, 1).workers.values())


@pytest.mark.parametrize(
    ("book", "usd"),
    [
        pytest.param({0: AT_A_DOLLAR, 1: AT_A_DOLLAR}, 2, id="an hour of each"),
        pytest.param({0: AT_A_DOLLAR}, 1, id="of the one whose price is known"),
        pytest.param({0: DEARER_SINCE}, 2, id="half an hour at each of two prices"),
        pytest.param({}, 0, id="of nobody"),
    ],
)
def test_workers_cost_their_charges_since_they_have_a_node(book: Book, usd: int) -> None:
    assert priced(a_job(2).view(), WORKERS, book).usd == Usd(usd)


def test_a_worker_that_has_ended_costs_nothing_from_then_on() -> None:
    job = at_work(a_job(1), 0, **ended(seconds_ago=1800))
    spent = [
        priced(job.view(moment), tuple(job.workers.values()), {0: AT_A_DOLLAR}).usd
        for moment in (NOW, later(7200))
    ]
    assert spent[0] == spent[1]
    assert spent[0].decimal == Decimal("0.5")


def test_a_worker_without_a_node_costs_nothing() -> None:
    [worker] = a_job(1).with_worker(0).workers.values()
    assert priced(a_job(1).view(), [replace(worker, node=None)], {0: AT_A_DOLLAR}).usd == NO_USD


@given(st.integers(-7200, 7200))
def test_an_end_counts_only_once_it_is_past(seconds: int) -> None:
    worker, end = WORKERS[0], NOW + timedelta(seconds=seconds)
    found = priced_by(NOW, [worker], {0: AT_A_DOLLAR}, {0: end})
    assert found == priced_by(NOW, [worker], {0: AT_A_DOLLAR}, {0: min(end, NOW)})


@given(st.integers(-3600, 3600), st.integers(0, 3600))
def test_time_that_is_parted_costs_what_the_whole_costs(start: int, length: int) -> None:
    begin, end = later(start), later(start + length)
    middle = begin + (end - begin) / 2
    whole = spent_between(DEARER_SINCE, begin, end).usd.exact
    parts = [
        spent_between(DEARER_SINCE, a, b).usd.exact for a, b in ((begin, middle), (middle, end))
    ]
    assert sum(parts) == whole
    assert spent_between(DEARER_SINCE, end, begin).usd == (NO_USD if length else Usd(0))
