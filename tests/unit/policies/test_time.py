"""A time that cannot be trusted: nothing irreversible follows from it, and no sum suffers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.cost.bill import bill
from spotrun.state.actions import Decision, DeleteJob
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago, later
from tests.support.jobs.stored_state import cost_of
from tests.support.money.priced_nodes import at_work

Verdict = tuple[JobBuilder, Callable[[Decision], bool]]


def has_failed(decision: Decision) -> bool:
    return decision.status.phase is Phase.FAILED


def is_deleted(decision: Decision) -> bool:
    return any(isinstance(action, DeleteJob) for action in decision.actions)


def late() -> Verdict:
    return a_job(1, deadline={"finishWithin": "1h", "onMissed": "Fail"}), has_failed


def spent() -> Verdict:
    """Held back for its budget, with its last checkpoint saved."""
    budget = {"maxCostUsd": "2.1", "onExceeded": "Fail"}
    job = at_work(
        a_job(2, checkpoint=ON_CLAIM, budget=budget).training(0, 1), 0, 1, ready=True, arrived=1
    )
    job = job.with_facts(written_seconds=91.0)
    return job.with_state(job.decide().status).with_checkpoint(seconds_ago=-1), has_failed


def over() -> Verdict:
    job = a_job(1, finished={"deleteAfter": "1m"})
    status = state(
        job.view(ago(100)),
        JobState(),
        ConditionType.COMPLETE,
        Reason.COMPLETED,
        "",
        holds=True,
    )
    return job.with_status(conditions=status.conditions, phase=Phase.SUCCEEDED), is_deleted


VERDICTS = pytest.mark.parametrize("verdict", [late, spent, over])


@VERDICTS
def test_it_waits_until_clocks_agree(verdict: Callable[[], Verdict]) -> None:
    job, is_final = verdict()
    assert is_final(job.decide(later(5)))

    doubted = job.with_facts(is_time_sure=False).decide(later(5))

    assert not is_final(doubted)
    assert 0 < doubted.wake_after_seconds <= 30


@VERDICTS
@pytest.mark.parametrize(("ahead_seconds", "is_known"), [(9, True), (11, False), (3600, False)])
def test_it_waits_where_it_was_later_already(
    verdict: Callable[[], Verdict], ahead_seconds: float, *, is_known: bool
) -> None:
    job, is_final = verdict()
    stored = replace(job.status.cost, as_of=later(5 + ahead_seconds))

    decision = job.with_status(cost=stored).decide(later(5))

    assert is_final(decision) is is_known


def test_the_budget_holds_a_job_back_all_the_same() -> None:
    """That is taken back where it was wrong, and to go on might cost what nobody allows."""
    budget = {"maxCostUsd": "2.1", "onExceeded": "Fail"}
    job = at_work(
        a_job(2, checkpoint=ON_CLAIM, budget=budget).training(0, 1), 0, 1, ready=True, arrived=1
    )
    decision = job.with_facts(is_time_sure=False, written_seconds=91.0).decide()
    assert decision.status.suspended_by == ("Budget",)


HOUR = 3600.0
Look = tuple[float, float]
"""The seconds after which it is looked, and how far the clock is ahead then."""


def lives(job: JobBuilder, looks: Sequence[Look]) -> JobBuilder:
    for seconds, ahead_seconds in looks:
        decision = job.decide(later(seconds + ahead_seconds))
        job = job.with_state(decision.status)
    return job


@given(
    st.lists(
        st.tuples(st.floats(1, HOUR), st.sampled_from([0.0, 0.0, 60.0, HOUR, 24 * HOUR, -HOUR])),
        min_size=1,
        max_size=12,
    )
)
def test_a_clock_that_jumps_and_comes_back_charges_nothing_twice(steps: list[Look]) -> None:
    job = at_work(a_job(2, checkpoint=ON_CLAIM).training(0, 1), 0, 1, ready=True, arrived=1)
    job = job.with_facts(written_seconds=float("inf"))
    looks, seconds = list[Look](), 0.0
    for pause, ahead in steps:
        seconds += pause
        looks.append((seconds, ahead))
    end = seconds + 61
    latest = max(when + ahead for when, ahead in [*looks, (end, 0.0)])

    jumped = lives(job, [*looks, (end, 0.0)])
    steady = lives(job, [*((when, 0.0) for when, _ in looks), (end, 0.0)])
    once = lives(job, [(latest, 0.0)])

    paid = [bill(one.view(later(end)), one.status).usd for one in (jumped, steady)]
    assert paid[0] == paid[1]
    assert shown(steady)["usd"] == shown(jumped)["usd"]
    for name, usd in shown(jumped).items():
        assert 0 <= usd <= max(shown(once).get(name, Decimal(0)), shown(steady)[name]), name


def shown(job: JobBuilder) -> dict[str, Decimal]:
    cost: Any = cost_of(job.status)
    names = ("usd", "idle_usd", "lost_work_usd")
    return {name: Decimal(str(getattr(cost, name) or 0)) for name in names}
