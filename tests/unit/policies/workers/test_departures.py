"""After the end: who may still run for how long, and what that costs."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.names import ConditionType, Phase
from spotrun.money.units import Usd
from spotrun.policies.cost.bill import bill
from spotrun.policies.cost.charges.times import ended_at
from spotrun.policies.report.write_rate import LATEST_REFRESH_SECONDS, REFRESH_SECONDS
from spotrun.policies.workers import departures
from spotrun.state.actions import Release, Remove
from spotrun.state.snapshot import PodPhase, Worker
from spotrun.state.stored.workers import NO_INTERRUPTIONS
from spotrun.state.view import View
from spotrun.wire import Ending, Failure
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, an_end, later
from tests.support.jobs.finished_jobs import MEMBER, SPARE, over, succeeded
from tests.support.jobs.stored_state import cost_of
from tests.support.money.priced_nodes import at_work
from tests.support.money.priced_nodes import ended as gone


def open_until(end: str) -> dict[str, Any]:
    """A schedule whose window closes so late on the day of the tests."""
    window = {"days": ["Mon"], "from": "09:00", "to": end}
    return {"schedule": {"windows": [window]}, "checkpoint": ON_CLAIM}


def removed(job: JobBuilder) -> list[int]:
    return [one.worker_id for one in job.decide().actions if isinstance(one, Remove)]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(29, []), (30, [SPARE]), (599, [SPARE]), (600, [MEMBER, SPARE])],
)
def test_who_trained_has_time_for_its_last_work_and_who_waited_to_end(
    seconds: float, expected: list[int]
) -> None:
    assert removed(succeeded(seconds)) == expected


@pytest.mark.parametrize(
    "worker",
    [
        pytest.param({"node": None}, id="it has no node yet"),
        pytest.param({}, id="it is starting"),
        pytest.param({"ready": True, "leaves_in": 90.0}, id="its node goes away"),
        pytest.param({"ready": True, "template": "old"}, id="it is of an older template"),
        pytest.param({"phase": PodPhase.RUNNING, "end": an_end(Ending.COMPLETED)["end"]},
                     id="only its side containers run"),
    ],
)  # fmt: skip
def test_who_has_no_last_work_goes_after_30_s(worker: dict[str, Any]) -> None:
    assert removed(succeeded(29).with_worker(SPARE, **worker)) == []
    assert removed(succeeded(30).with_worker(SPARE, **worker)) == [SPARE]


def test_a_member_whose_script_has_ended_does_not_wait_for_its_side_containers() -> None:
    busy = {"phase": PodPhase.RUNNING, "end": an_end(Ending.COMPLETED)["end"]}
    job = succeeded(30).training(MEMBER, SPARE).with_status(phase=Phase.SUCCEEDED)
    assert removed(job.with_worker(MEMBER, ready=True, arrived=1, **busy)) == [MEMBER]
    alone = succeeded(20).with_worker(MEMBER, ready=True, arrived=1, **busy).without(SPARE)
    assert alone.decide().wake_after_seconds == 10, "and it is looked at again for that"


def test_once_all_have_ended_there_is_nothing_to_look_at_again() -> None:
    job = succeeded(20).with_workers(MEMBER, SPARE, ready=True, **an_end(Ending.COMPLETED))
    assert job.decide().wake_after_seconds == float("inf")


def test_who_trained_while_the_next_world_was_prepared_has_last_work() -> None:
    job = succeeded(300).with_world("0-1", 2, is_active=False, state_holders="0", training_number=1)
    assert removed(job) == [SPARE]


@pytest.mark.parametrize(
    ("seconds", "leaves_in", "expected"),
    [(100, 1.0, []), (100, 0.0, [MEMBER]), (29, -5.0, []), (600, 90.0, [MEMBER])],
)
def test_a_node_that_goes_away_is_left_in_time(
    seconds: float, leaves_in: float, expected: list[int]
) -> None:
    job = succeeded(seconds).without(SPARE)
    job = job.with_worker(MEMBER, ready=True, arrived=1, leaves_in=leaves_in)
    assert removed(job) == expected


def spending(spent: str, then: str = "Fail") -> JobBuilder:
    """With a budget of $10, $1 an hour, and so much spent besides the hour until now."""
    budget = {"maxCostUsd": "10", "onExceeded": then}
    job = at_work(succeeded(100, budget=budget), MEMBER, ready=True, arrived=1).without(SPARE)
    metered = job.decide().status
    sums = replace(metered.accumulators, usd=Usd(Decimal(spent)))
    return job.with_state(metered).with_status(accumulators=sums)


@pytest.mark.parametrize(
    ("why", "job", "expected"),
    [
        ("nothing calls it off", succeeded(100, **open_until("12:01")), [SPARE]),
        ("the user suspends it", succeeded(100, suspend=True), [MEMBER, SPARE]),
        ("its window has closed", succeeded(100, **open_until("11:59")), [MEMBER, SPARE]),
        ("the budget is not spent", spending("8.9"), []),
        ("the budget is spent but for what the end costs", spending("8.96"), [MEMBER]),
        ("a budget only warns", spending("99", then="Warn"), []),
    ],
)
def test_last_work_is_called_off_by_what_holds_a_job_back(
    why: str, job: JobBuilder, expected: list[int]
) -> None:
    assert removed(job) == expected, why


def test_a_failed_jobs_workers_go_at_once() -> None:
    assert removed(over(ConditionType.FAILED, 0)) == [MEMBER, SPARE]


def test_the_one_that_failed_ends_by_itself_so_that_its_log_stays() -> None:
    boom = Failure(1, 1, "boom")
    job = over(ConditionType.FAILED, 0).with_worker(MEMBER, ready=True, arrived=1, failed=boom)
    assert removed(job) == [SPARE]
    hangs = over(ConditionType.FAILED, 31).with_worker(MEMBER, ready=True, arrived=1, failed=boom)
    assert removed(hangs) == [MEMBER, SPARE]


@given(
    elapsed=st.floats(0, 2_000),
    more=st.floats(0, 2_000),
    leaves_in=st.none() | st.floats(-100, 2_000),
    is_member=st.booleans(),
)
def test_nobody_goes_before_30_s_or_stays_beyond_10_min_and_who_is_to_go_goes(
    elapsed: float, more: float, leaves_in: float | None, is_member: bool
) -> None:
    worker_id = MEMBER if is_member else SPARE
    job = succeeded(elapsed).with_worker(worker_id, ready=True, arrived=1, leaves_in=leaves_in)
    now = worker_id in removed(job)
    assert elapsed >= 29.999 or not now
    assert elapsed <= 600.001 or now
    then = [one.worker_id for one in job.decide(later(more)).actions if isinstance(one, Remove)]
    assert not now or worker_id in then


# what it costs, and when it is looked at again ---------------------------------------------------


def test_last_work_is_paid_and_told_like_any_other_and_is_no_lost_work() -> None:
    job = at_work(succeeded(0), MEMBER, ready=True, arrived=1).without(SPARE)
    first = job.with_facts(written_seconds=float("inf")).decide()
    later_on = job.with_state(first.status).with_facts(written_seconds=91.0)
    second = later_on.decide(later(360)).status
    before, after = cost_of(first.status), cost_of(second)
    assert (before.usd, after.usd) == ("1", "1.1")
    assert (after.usd_per_hour, after.lost_work_usd) == ("1", None)
    assert REFRESH_SECONDS <= first.wake_after_seconds <= LATEST_REFRESH_SECONDS


def test_its_end_is_settled_to_the_second() -> None:
    job = at_work(succeeded(360), MEMBER, ready=True, arrived=1).without(SPARE)
    metered = job.with_state(job.decide().status)
    end = {**an_end(Ending.COMPLETED), **gone(36.0)}
    ended = at_work(metered, MEMBER, ready=True, arrived=1, **end)
    decision = ended.with_facts(written_seconds=91.0).decide()
    assert str(decision.status.settled) == "0-1", "as is the number that was owed in vain"
    assert bill(ended.view(), decision.status).usd.amount == "0.99"  # 3,564 s at $1/h
    assert decision.actions[0] == Release(MEMBER, "uid-0")


@pytest.mark.parametrize(
    ("seconds", "spec", "expected"),
    [
        (20, {}, 10.0),
        (595, {}, 5.0),
        (100, open_until("12:01"), 60.0),
        (100, {"finished": {"deleteAfter": "2m"}}, 20.0),
    ],
)
def test_it_is_looked_at_again_when_somebody_is_to_go(
    seconds: float, spec: dict[str, Any], expected: float
) -> None:
    assert succeeded(seconds, **spec).decide().wake_after_seconds == expected


def test_it_is_looked_at_again_when_the_budget_is_spent() -> None:
    assert spending("8.935").decide().wake_after_seconds == 18.0  # $0.06 are kept for the end


def test_who_ends_by_itself_is_not_lost_because_others_miss_it() -> None:
    job = a_job(3).training(0, 1, 2, suspects=(2,)).with_worker(2, ready=True, arrived=1, heard=5)
    assert job.decide().status.lost == {2}
    over_now = succeeded(100).with_spec(3).with_workers(0, 1, ready=True, arrived=1, suspects=(2,))
    over_now = over_now.with_world("0-2").with_worker(2, ready=True, arrived=1, heard=5)
    decision = over_now.decide()
    assert (decision.status.lost, decision.status.interruptions) == (frozenset(), NO_INTERRUPTIONS)
    assert decision.actions == ()


def test_a_job_that_is_deleted_amid_last_work_only_lets_go_of_its_pods() -> None:
    job = succeeded(100)
    deleting = replace(job, facts={"deleting": True}).with_worker(
        SPARE, ready=True, **an_end(Ending.DEPARTED)
    )
    assert deleting.decide().actions == (Release(SPARE, "uid-1"),)


def test_how_long_workers_may_stay_is_found_out_once_in_a_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def counted(view: View, worker: Worker) -> datetime | None:
        asked.append(worker.worker_id)
        return ended_at(view, worker)

    monkeypatch.setattr(departures, "ended_at", counted)
    assert removed(succeeded(30)) == [SPARE]
    assert sorted(asked) == [MEMBER, SPARE]
