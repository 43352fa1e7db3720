from typing import Any

import pytest

from spotrun.api.names import Phase, SuspendedBy
from spotrun.state.actions import Remove
from spotrun.wire import Ending
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, an_end, later
from tests.support.jobs.stored_state import cost_of
from tests.support.money.limited_jobs import a_limited_job, after, said
from tests.support.money.priced_nodes import a_node, at_work
from tests.support.money.shared_limits import usd

# Two workers at $1 an hour each, for an hour: $2. Kept back: 1.2 x $2/h x 290 s = $0.1933.


def test_below_the_limit_nothing_happens() -> None:
    decision = a_limited_job("10").decide()
    assert said(decision.status)[:2] == (True, "Training")
    assert decision.status.suspended_by is None
    cost = cost_of(decision.status)
    assert cost.budget_used_percent == "20%"


@pytest.mark.parametrize(
    ("limit", "is_within"),
    [
        pytest.param("2.2", True, id="the last checkpoint is still paid"),
        pytest.param("2.19", False, id="it is not"),
        pytest.param("1", False, id="the limit was lowered"),
    ],
)
def test_the_last_checkpoint_is_kept_back(limit: str, is_within: bool) -> None:
    assert said(a_limited_job(limit).decide().status)[0] is is_within


def test_without_a_checkpoint_only_the_end_of_the_workers_is_kept_back() -> None:
    job = a_job(2, budget={"maxCostUsd": "2.13", "onExceeded": "Fail"})
    assert said(at_work(job, 0, 1).decide().status)[0] is True  # 1.2 x $2/h x 180 s = $0.12
    less = a_job(2, budget={"maxCostUsd": "2.11", "onExceeded": "Fail"})
    assert said(at_work(less, 0, 1).decide().status)[0] is False


def test_at_the_limit_a_checkpoint_is_ordered_before_anybody_goes() -> None:
    job = a_limited_job("2.1")
    stopped = job.decide()
    assert stopped.status.suspended_by == (SuspendedBy.BUDGET,)
    assert (stopped.status.phase, stopped.status.reason) == (Phase.SUSPENDED, "BudgetExceeded")
    assert stopped.status.orders.checkpoint == 1
    assert not any(isinstance(action, Remove) for action in stopped.actions)
    saved = after(job, stopped).with_checkpoint(seconds_ago=-1.0).decide(later(2))
    removed = [action.reason for action in saved.actions if isinstance(action, Remove)]
    assert removed == ["BudgetExceeded"] * 2


def test_what_to_set_to_go_on_is_said() -> None:
    message = said(a_limited_job("2.1").decide().status)[2]
    assert message == (
        "$2.00 of $2.10 are spent, and $0.19 are kept for the last checkpoint and the end of the "
        "workers: to continue, set budget.maxCostUsd above 2.193333333333"
    )


@pytest.mark.parametrize(
    ("limit", "goes_on"),
    [("2.1", False), ("2.19", False), ("2.2", True), (None, True)],
    ids=["as it was", "too little", "enough", "without a limit"],
)
def test_a_job_goes_on_once_the_limit_is_raised(limit: str | None, goes_on: bool) -> None:
    job = a_limited_job("2.1")
    stopped = after(job, job.decide()).with_workers(0, 1, **_gone(job))
    settled = after(stopped, stopped.decide())
    budget = {} if limit is None else {"budget": {"maxCostUsd": limit}}
    raised = settled.with_spec(2, checkpoint=ON_CLAIM, **budget)
    assert (raised.decide().status.suspended_by is None) is goes_on


@pytest.mark.parametrize(("limit", "goes_on"), [("2.19", False), ("2.193", False), ("2.194", True)])
def test_ends_that_were_earlier_than_known_do_not_let_the_job_start_again(
    limit: str, goes_on: bool
) -> None:
    """The sum was $2.1933; with workers that had ended a minute before, it is only $2.16."""
    job = a_limited_job("2.19")
    gone = after(job, job.decide()).with_workers(0, 1, **_gone(job, seconds_ago=60))
    corrected = gone.decide()
    assert corrected.status.accumulators.usd is not None
    assert corrected.status.accumulators.usd < usd("1.97")
    assert corrected.status.suspended_by == (SuspendedBy.BUDGET,)
    settled = after(gone, corrected)
    assert settled.decide(later(60)).status.suspended_by == (SuspendedBy.BUDGET,)
    raised = settled.with_spec(2, checkpoint=ON_CLAIM, budget={"maxCostUsd": limit})
    decided = raised.decide(later(60)).status
    assert (decided.suspended_by is None) is goes_on
    assert (decided.accumulators.continue_above_usd is None) is goes_on
    assert "2.193333333333" in said(corrected.status)[2]


def test_fail_ends_the_job_once_its_checkpoint_is_saved() -> None:
    job = a_limited_job("2.1", onExceeded="Fail")
    stopped = after(job, job.decide())
    assert stopped.decide(later(5)).status.phase is Phase.SUSPENDED
    over = stopped.with_checkpoint(seconds_ago=-1.0).decide(later(5)).status
    assert (over.phase, over.reason) == (Phase.FAILED, "BudgetExceeded")


def test_warn_goes_on_beyond_the_limit() -> None:
    decision = a_limited_job("1.5", onExceeded="Warn").decide()
    assert said(decision.status)[:2] == (False, "BudgetExceeded")
    assert decision.status.suspended_by is None
    cost = cost_of(decision.status)
    assert cost.stop_at is None


def test_each_level_is_told_once_and_of_several_the_highest() -> None:
    job = a_limited_job("2.4", warnAtPercent=[10, 50, 80])
    first = job.decide()
    [reported] = first.announcements
    assert (reported.reason, reported.is_warning) == ("BudgetWarning", True)
    words = "80% of the budget is used: $2.00 of $2.40; the job now costs $2.00/h"
    assert reported.message == words
    assert said(first.status)[1] == "BudgetWarning"
    assert after(job, first).decide(later(61)).announcements == ()


def test_the_job_is_looked_at_again_when_the_limit_is_reached() -> None:
    # $2.24 less $0.1933 lasts 84 s.
    job = a_limited_job("2.24", warnAtPercent=[])
    stored = after(job, job.decide()).with_facts(written_seconds=0.0)
    assert stored.decide().wake_after_seconds <= 60
    nearly = stored.decide(later(80)).wake_after_seconds
    assert nearly == pytest.approx(4.0, abs=0.1)


def test_workers_that_hear_nothing_stop_before_the_limit() -> None:
    cost = cost_of(a_limited_job("10").decide().status)
    # $10 less $2 less $0.1933, at 1.2 x $2/h
    assert cost.stop_at is not None
    assert (cost.stop_at.datetime - NOW).total_seconds() == pytest.approx(11_710, abs=1)


def test_nobody_is_told_to_stop_before_there_can_be_news() -> None:
    cost = cost_of(a_limited_job("2.2").decide().status)
    assert cost.stop_at is not None
    assert cost.stop_at.datetime == later(90)


def test_what_others_hold_back_stays_held_back() -> None:
    job = a_limited_job("2.1", suspend=True)
    by = job.decide().status.suspended_by
    assert by == (SuspendedBy.USER, SuspendedBy.BUDGET)


def _gone(job: JobBuilder, seconds_ago: float = 0.0) -> dict[str, Any]:
    pod = job.workers[0].pod
    times = {name: getattr(pod, name) for name in ("requests", "scheduled_at", "created_at")}
    return {**times, "node": a_node(), **an_end(Ending.DEPARTED), "ended_at": later(-seconds_ago)}
