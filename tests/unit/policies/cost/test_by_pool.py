"""What a job has cost by pools: the same sum, of which no part ever falls."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.cost import MOST_EARLIER, MOST_POOLS, OTHER_POOLS, PoolCosts
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago, later
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import a_node, at_work, ended

ROUNDING = Decimal("1e-9")
HOUR = timedelta(hours=1)


def in_pools(*pools: str) -> JobBuilder:
    """A worker on a node of each, for an hour, at $1 an hour."""
    job = a_job(max(len(pools), 1)).with_facts(written_seconds=91.0)
    for worker_id, pool in enumerate(pools):
        job = at_work(job, worker_id, node=a_node(f"n{worker_id}", pool=pool))
    return job


def on(costs: PoolCosts | None) -> dict[str, str]:
    return {cost.pool: str(cost.usd) for cost in costs or ()}


def shown(status: JobState) -> dict[str, str]:
    return on(cost_of(status).by_pool)


def test_workers_cost_something_in_the_pools_of_their_nodes() -> None:
    assert shown(in_pools("b", "a", "b", "").decide().status) == {"": "1", "a": "1", "b": "2"}


def test_what_was_paid_in_a_pool_stays_when_its_workers_have_ended() -> None:
    first = in_pools("a", "b").decide().status
    over = at_work(in_pools("a", "b").with_state(first), 0, 1, **ended(1800))
    status = over.decide().status
    assert on(sums_of(status).by_pool) == {"a": "0.5", "b": "0.5"}
    assert shown(status) == {"a": "0.5", "b": "0.5"}


def test_a_pool_that_becomes_known_late_counts_from_then_on() -> None:
    first = in_pools("").decide().status
    status = in_pools("a").with_state(first).decide(NOW + HOUR / 2).status
    assert shown(status) == {"": "1.5"}
    assert shown(in_pools("a").with_state(status).decide(NOW + HOUR).status) == {
        "": "1.5",
        "a": "0.5",
    }


def test_a_node_whose_pool_is_not_known_for_a_while_stays_where_it_was() -> None:
    first = in_pools("a").decide().status
    status = in_pools("").with_state(first).decide(NOW + HOUR).status
    assert shown(status) == {"a": "2"}
    assert status.accumulators is not None
    assert first.accumulators is not None
    assert status.accumulators.rates == first.accumulators.rates


def test_what_was_told_of_a_pool_stays_there_though_its_price_had_changed_before() -> None:
    first = in_pools("a").decide().status
    dearer = a_node("n0", pool="b", changes=((NOW + HOUR / 2, "8"),))
    moved = at_work(in_pools("a").with_state(first), 0, node=dearer)
    status = moved.decide(NOW + HOUR).status
    assert shown(status) == {"a": "2.5"}  # half an hour of it at $2
    later_on = moved.with_state(status).decide(NOW + 2 * HOUR).status
    assert shown(later_on) == {"a": "2.5", "b": "2"}


def test_of_many_pools_the_first_are_told_apart_and_stay_so() -> None:
    many = [f"p{number:02}" for number in range(MOST_POOLS + 2)]
    first = in_pools(*many[1:]).decide().status
    assert shown(first) == dict.fromkeys(many[1:-1], "1") | {OTHER_POOLS: "1"}
    status = in_pools(*many[1:], many[0]).with_state(first).decide().status
    assert shown(status) == dict.fromkeys(many[1:-1], "1") | {OTHER_POOLS: "2"}


def test_a_job_that_moves_for_ever_keeps_a_short_status() -> None:
    status = JobState()
    for number in range(3 * MOST_POOLS):
        job = at_work(in_pools().with_state(status), 0, node=a_node(pool=f"p{number}"))
        status = job.decide(later(600 * number)).status
    names = shown(status)
    assert len(names) == MOST_POOLS + 1
    assert OTHER_POOLS in names


def test_a_long_history_of_prices_is_added_up_in_its_pool() -> None:
    changes = tuple((ago(3000 - n), str(4 + n % 2)) for n in range(MOST_EARLIER + 10))
    dear = replace(a_node(changes=changes), pool="a")
    status = at_work(in_pools("a"), 0, node=dear).decide().status
    sums = sums_of(status)
    [folded] = sums.by_pool or ()
    assert (folded.pool, folded.usd) == ("a", sums.usd)


moments = st.integers(0, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))
looks = st.tuples(moments, st.tuples(st.sampled_from(("", "a", "b")), st.sampled_from(("a", "c"))))


def course(
    ends: tuple[datetime, datetime], seen: list[tuple[datetime, tuple[str, str]]]
) -> Iterator[JobState]:
    """What is said at each look of two workers whose nodes are in these pools then."""
    status = JobState()
    last = (NOW + timedelta(hours=3), ("b", "c"))
    for now, pools in [*sorted(seen), last]:
        job = in_pools().with_state(status).with_spec(2)
        for worker_id, (end, pool) in enumerate(zip(ends, pools, strict=True)):
            over = {**ended(), "ended_at": end} if end <= now else {}
            job = at_work(job, worker_id, node=a_node(f"n{worker_id}", pool=pool), **over)
        numbers = max(job.status.next_worker_id or 0, 2)
        status = job.with_status(next_worker_id=numbers).decide(now).status
        yield status


@settings(max_examples=15, deadline=None)
@given(st.tuples(moments, moments), st.lists(looks, max_size=5))
def test_no_pools_sum_ever_falls_and_all_are_the_whole(
    ends: tuple[datetime, datetime], seen: list[tuple[datetime, tuple[str, str]]]
) -> None:
    before: dict[str, Decimal] = {}
    for status in course(ends, seen):
        after = {pool: Decimal(usd) for pool, usd in shown(status).items()}
        assert all(after[pool] >= usd for pool, usd in before.items())
        before = after
    sums = sums_of(status)
    assert sums.usd is not None
    whole = sum(map(Decimal, on(sums.by_pool).values()), Decimal(0))
    assert abs(whole - sums.usd.decimal) < ROUNDING
