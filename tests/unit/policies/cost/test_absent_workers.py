"""What a worker is charged whose pod nobody shows any more: hidden, or gone without a word.

Two workers got their nodes an hour ago and cost $1 an hour each; by `NOW` they have cost $2.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import Phase, Reason
from spotrun.state.actions import Create, Decision
from spotrun.state.snapshot import Broken
from tests.support.jobs.builders import NOW, JobBuilder, a_job, later
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import a_node, at_work, ended

SECOND = replace(a_node("b", capacity=Capacity.SPOT), pool="spot")
UNREACHABLE = replace(SECOND, ready=False, unreachable_at=NOW)
KINDS = ("running", "finished", "suspended", "deleted", "broken")


def a_trained_job(kind: str = "running", **spec: Any) -> JobBuilder:
    """Both train, or did so until something became of the job."""
    job = a_job(2, min=1, suspend=kind == "suspended", **spec).with_facts(written_seconds=600.0)
    job = job.training(0, 1)
    if kind == "finished":
        return job.with_status(phase=Phase.SUCCEEDED)
    if kind == "broken":
        return job.with_facts(broken=Broken("its template cannot be read"))
    return job.with_facts(deleting=kind == "deleted")


def looked_at(job: JobBuilder, now: datetime, worker_ids: Sequence[int] = (0, 1)) -> Decision:
    """What is decided where these workers are shown."""
    for worker_id in (0, 1):
        job = job.without(worker_id)
    if 0 in worker_ids:
        job = at_work(job, 0, node=a_node("a"), ready=True, arrived=1)
    if 1 in worker_ids:
        job = at_work(job, 1, node=SECOND, ready=True, arrived=1)
    return job.decide(now)


def after(first: Decision, kind: str = "running", **facts: Any) -> JobBuilder:
    return a_trained_job(kind).with_state(first.status).with_facts(**facts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("missed_at", "usd"),
    [
        pytest.param(later(1800), "1.5", id="while an operator watched"),
        pytest.param(None, "1", id="while none did"),
    ],
)
def test_a_worker_whose_pod_vanishes_is_charged_until_it_was_last_known_to_be_there(
    kind: str, missed_at: datetime | None, usd: str
) -> None:
    first = looked_at(a_trained_job(), NOW)
    job = after(first, kind, vanished={1: missed_at})
    gone = looked_at(job, later(3600), [0]).status
    assert gone.settled.size == 1
    sums = sums_of(gone)
    assert (sums.usd, sums.spot_usd) == (usd, usd)
    assert [(one.pool, one.usd) for one in sums.by_pool or ()] == [("spot", usd)]
    cost = cost_of(gone)
    assert Decimal(cost.usd or 0) == 2 + Decimal(usd)
    assert (cost.usd_per_hour, cost.corrected_usd) == ("1", None)


@pytest.mark.parametrize("is_gone", [True, False])
def test_it_is_not_charged_with_what_another_turns_out_not_to_owe(is_gone: bool) -> None:
    first = looked_at(a_trained_job(), NOW)
    job = after(first, vanished={1: NOW} if is_gone else {}).without(0).without(1)
    job = at_work(job, 0, node=a_node("a"), **ended(1800))
    found = job.decide(NOW)
    cost = cost_of(found.status)
    assert (cost.usd, cost.corrected_usd) == ("1.5", "-0.5")
    assert [(one.pool, one.usd) for one in cost.by_pool or ()] == [("", "0.5"), ("spot", "1")]
    [reported] = [one for one in found.announcements if one.reason == Reason.COST_CORRECTED]
    assert "by -$0.50 to $1.50" in reported.message


def test_one_that_was_noted_to_cost_no_more_is_paid_once_when_its_pod_vanishes() -> None:
    job = a_trained_job("finished").with_status(next_worker_id=2, lost=frozenset({1}))
    job = at_work(job, 0, node=a_node("a"), ready=True, arrived=1)
    lost = at_work(job, 1, node=UNREACHABLE, ready=True, heard=45.0).decide(later(1))
    assert lost.status.accumulators.ends
    gone = looked_at(after(lost, vanished={1: later(60)}), later(60), [0])
    assert sums_of(gone.status).ends is None
    assert [one for one in gone.announcements if "in all" in one.message] == []
    job = at_work(after(gone).without(0), 0, node=a_node("a"), **ended(-60))
    [last] = [one for one in job.decide(later(61)).announcements if "in all" in one.message]
    assert "$2.02 in all" in last.message


def test_nothing_is_corrected_and_its_number_is_not_given_to_another() -> None:
    first = looked_at(a_trained_job(), NOW)
    gone = looked_at(after(first, vanished={1: later(1)}), later(2), [0])
    assert [one for one in gone.announcements if one.reason == Reason.COST_CORRECTED] == []
    then = looked_at(after(gone), later(3), [0])
    made = [one.worker_id for one in (*gone.actions, *then.actions) if isinstance(one, Create)]
    assert 1 not in made
    assert Decimal(cost_of(then.status).usd or 0) < Decimal("2.0012")


def test_all_that_vanish_at_once_have_cost_together_what_was_told() -> None:
    first = looked_at(a_trained_job(), NOW)
    gone = looked_at(after(first, vanished={0: None, 1: None}), later(3600), []).status
    cost = cost_of(gone)
    assert (cost.usd, cost.usd_per_hour, cost.corrected_usd) == ("2", "0", None)
    assert [(one.pool, one.usd) for one in cost.by_pool or ()] == [("", "1"), ("spot", "1")]


def test_one_whose_charge_was_noted_to_end_is_not_charged_for_the_time_after_that() -> None:
    job = at_work(a_trained_job(), 0, node=a_node("a"), ready=True, arrived=1)
    lost = at_work(job, 1, node=UNREACHABLE, ready=True, heard=45.0).decide(later(1))
    gone = looked_at(after(lost, vanished={1: later(3600)}), later(3600), [0]).status
    assert (cost_of(gone).usd, cost_of(gone).corrected_usd) == ("3", None)


def test_one_that_is_hidden_costs_on_and_is_no_correction_when_it_is_shown_again() -> None:
    first = looked_at(a_trained_job(), NOW)
    hidden = looked_at(after(first), later(1800), [0])
    assert (cost_of(hidden.status).usd, cost_of(hidden.status).usd_per_hour) == ("3", "2")
    assert not hidden.status.settled.size
    shown = looked_at(after(hidden), later(3600))
    assert (cost_of(shown.status).usd, cost_of(shown.status).corrected_usd) == ("4", None)


@pytest.mark.parametrize("kind", ["suspended", "deleted"])
def test_one_that_is_hidden_is_not_settled_where_nobody_is_wanted_any_more(kind: str) -> None:
    hidden = looked_at(after(looked_at(a_trained_job(), NOW), kind), later(60), [0]).status
    assert not hidden.settled.size


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 7200), st.sampled_from([(0, 1), (0,), (1,), ()]), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(KINDS),
)
def test_what_is_shown_never_falls_whoever_is_hidden_or_vanishes(
    seen: list[tuple[int, tuple[int, ...], bool]], kind: str
) -> None:
    decision, shown = looked_at(a_trained_job(), NOW), Decimal(2)
    for seconds, worker_ids, is_known in sorted(seen):
        now = later(seconds)
        settled = decision.status.settled
        missing = {0, 1} - set(worker_ids)
        job = after(decision, kind, vanished=dict.fromkeys(missing, now) if is_known else {})
        there = [worker_id for worker_id in worker_ids if worker_id not in settled]
        decision = looked_at(job, now, there)
        cost = cost_of(decision.status)
        assert cost.corrected_usd is None
        assert Decimal(cost.usd or 0) >= shown
        shown = Decimal(cost.usd or 0)
