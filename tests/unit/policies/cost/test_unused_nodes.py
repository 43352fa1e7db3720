"""What nodes cost beyond the shares of a job's workers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from spotrun.api.cost import Accumulators
from spotrun.money.price_history import PriceHistory
from spotrun.state.actions import Decision
from spotrun.state.codec import write
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago
from tests.support.jobs.stored_state import sums_of
from tests.support.money.priced_nodes import WHOLE, a_node, at_work, ended

HOUR = timedelta(hours=1)
# $4 an hour; a quarter of it is a worker's, who got it an hour ago and was made two hours ago.
OLD = a_node(created_at=ago(10 * 3600))
YOUNG = a_node(created_at=ago(3600 + 900))


def job_on(node: Any, *worker_ids: int, **pod: Any) -> JobBuilder:
    return at_work(a_job(2).training(0, 1), *worker_ids or (0, 1), node=node, **pod)


def idle(decision: Decision) -> str | None:
    cost = write(decision.status).cost
    return cost.idle_usd if cost is not None else None


def after(job: JobBuilder, decision: Decision) -> JobBuilder:
    return job.with_state(decision.status).with_facts(written_seconds=91.0)


def test_what_two_quarters_leave_of_a_node_is_idle() -> None:
    assert idle(job_on(OLD).decide()) == "2"


def test_a_node_that_came_for_a_worker_is_idle_until_it_has_it() -> None:
    assert idle(job_on(YOUNG).decide()) == "3"  # a quarter of an hour more, of all of it


def test_a_worker_that_has_all_of_its_node_leaves_nothing_idle() -> None:
    alone = at_work(a_job(1).training(0), 0, node=OLD, requests=WHOLE)
    assert idle(alone.decide()) is None


def test_a_node_that_other_jobs_have_as_well_is_in_nobodys_figure() -> None:
    shared = job_on(OLD).with_facts(shared_nodes=frozenset({"a"}))
    assert idle(shared.decide()) is None


def test_a_node_of_unknown_price_is_not_counted() -> None:
    assert idle(job_on(replace(OLD, prices=PriceHistory())).decide()) is None


def test_what_was_counted_once_is_not_counted_again() -> None:
    job = job_on(YOUNG)
    first = job.decide()
    again = after(job, first).decide(NOW + HOUR)
    assert (idle(first), idle(again)) == ("3", "5")
    assert sums(after(job, first).decide(NOW)).idle_usd == "3"


def test_a_node_that_joins_later_brings_the_time_since_it_came() -> None:
    job = job_on(OLD, 0)
    first = job.without(1).decide()
    asked, came, used = (NOW + timedelta(minutes=minutes) for minutes in (10, 20, 30))
    late = a_node("b", created_at=came)
    joined = at_work(after(job, first), 1, node=late, created_at=asked, scheduled_at=used)
    # $3 of the first node; of the second $4/6 until it is used, and half of $3 then.
    assert idle(joined.decide(NOW + HOUR)) == str(round(3 + 3 + 4 / 6 + 1.5, 4))


def test_nothing_is_idle_once_the_last_worker_has_ended() -> None:
    job = job_on(OLD)
    before = job.decide()
    job = after(job, before)
    halfway = NOW + HOUR / 2
    over = at_work(job, 0, 1, node=OLD, **{**ended(), "ended_at": halfway})
    settled = over.decide(NOW + HOUR)
    assert (str(settled.status.settled), idle(settled)) == ("0-1", "3")
    assert sums(after(over, settled).decide(NOW + 2 * HOUR)).idle_usd == "3"
    assert sums(after(over, settled).decide(NOW + 2 * HOUR)).idle_as_of is None


def test_a_node_that_is_gone_costs_nothing_more() -> None:
    job = job_on(OLD)
    gone = replace(OLD, gone=True, ready=False, gone_at=NOW + HOUR / 2)
    lost = at_work(after(job, job.decide()), 0, 1, node=gone)
    assert sums(lost.decide(NOW + HOUR)).idle_usd == "3"


def sums(decision: Decision) -> Accumulators:
    return sums_of(decision.status)
