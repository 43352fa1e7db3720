"""Who stands in line for nodes, and at which place."""

from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.names import ConditionType, Reason
from spotrun.policies.placement.queueing.gang import (
    EVERYWHERE,
    PATIENCE,
    Place,
    gives_back,
    is_incomplete,
    lacks_nodes,
    lacks_quota,
    lines_of,
    only_asks,
)
from spotrun.state.actions import Remove
from spotrun.state.conditions import find, state
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Refusal
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago, an_end

FULL: dict[str, Any] = {"node": None, "unschedulable": "0/3 nodes are available"}
WORDS = "exceeded quota: few, requested: pods=1, used: pods=4, limited: pods=4"
SHORT = {"refusal": Refusal("QuotaExceeded", WORDS)}
REFUSED = {"refusal": Refusal("TemplateRefused", "no")}


def lacking_for(seconds: float, job: JobBuilder) -> JobBuilder:
    """A job of which it is known for so long that it lacks nodes."""
    kind, reason = ConditionType.CAPACITY_AVAILABLE, Reason.WAITING_FOR_CAPACITY
    known = state(job.view(ago(seconds)), JobState(), kind, reason, "", holds=False)
    return job.with_status(conditions=known.conditions)


def short_for(seconds: float, job: JobBuilder) -> JobBuilder:
    """A job of which it is known for so long that its quota has no room for it."""
    kind, reason = ConditionType.TEMPLATE_ACCEPTED, Reason.QUOTA_EXCEEDED
    known = state(job.view(ago(seconds)), JobState(), kind, reason, "", holds=False)
    return job.with_facts(**SHORT).with_status(conditions=known.conditions)


@pytest.mark.parametrize(
    ("job", "incomplete", "lacks"),
    [
        (a_job(2, min=2), True, False),
        (a_job(2, min=2).with_workers(0, 1, node=None), True, False),
        (a_job(2, min=2).with_worker(0).with_worker(1, **FULL), True, True),
        (a_job(3, min=2).with_workers(0, 1).with_worker(2, **FULL), False, False),
        (a_job(2, min=2).with_status(reason="WaitingForGang"), True, True),
        (a_job(2, min=2).with_worker(0, **an_end()).with_worker(1), True, False),
        (a_job(2).training(0).with_worker(1, **FULL), False, False),
        (a_job(1, suspend=True).with_worker(0, **FULL), False, False),
        (a_job(1).with_worker(0, **FULL).with_facts(deleting=True), False, False),
        (a_job(1).with_worker(0, **FULL).with_status(phase="Failed"), False, False),
    ],
)
def test_a_gang_is_in_line_while_it_lacks_nodes_for_its_smallest_world(
    job: JobBuilder, incomplete: bool, lacks: bool
) -> None:
    seen = job.snapshot()
    assert (is_incomplete(seen), lacks_nodes(seen)) == (incomplete, lacks)


@pytest.mark.parametrize(
    ("job", "short", "lines"),
    [
        (a_job(2, min=2), False, set()),
        (a_job(2, min=2).with_facts(**SHORT), True, {"ns"}),
        (a_job(2, min=2).with_worker(0).with_facts(**SHORT), True, {"ns"}),
        (a_job(2, min=2).with_worker(0).with_facts(**REFUSED), False, set()),
        (a_job(3, min=2).with_workers(0, 1, node=None).with_facts(**SHORT), False, set()),
        (a_job(3, min=2).with_worker(0, **FULL).with_facts(**SHORT), True, {EVERYWHERE, "ns"}),
        (
            a_job(2, min=2).with_worker(0, **an_end()).with_worker(1).with_facts(**SHORT),
            True,
            {"ns"},
        ),
        (a_job(2, min=2).with_status(reason="QuotaExceeded"), True, {"ns"}),
        (a_job(2, min=2).with_status(reason="QuotaExceeded").with_facts(**REFUSED), False, set()),
        (a_job(2, min=2).with_status(reason="WaitingForGang"), False, {EVERYWHERE, "ns"}),
        (a_job(2, min=2).with_status(reason="WaitingForGang").with_facts(**SHORT), True, {"ns"}),
        (a_job(2).training(0).with_facts(**SHORT), False, set()),
        (a_job(1, suspend=True).with_facts(**SHORT), False, set()),
    ],
)
def test_who_lacks_a_quota_for_its_smallest_world_stands_in_line_in_its_namespace_alone(
    job: JobBuilder, short: bool, lines: set[str]
) -> None:
    seen = job.snapshot()
    assert (lacks_quota(seen), set(lines_of(seen))) == (short, lines)


@pytest.mark.parametrize(
    ("job", "asks", "back"),
    [
        (short_for(599, a_job(4, min=4).with_workers(0, 1)), False, False),
        (short_for(600, a_job(4, min=4).with_workers(0, 1)), True, True),
        (short_for(600, a_job(4, min=4)), True, False),
        (short_for(600, a_job(4, min=4).with_worker(0, deleting=True)), True, False),
        (short_for(600, a_job(4, min=2).with_workers(0, 1)), False, False),
        (short_for(600, a_job(4, min=2).training(0, 1)), False, False),
        (lacking_for(600, a_job(4, min=4).with_workers(0, 1).with_facts(**SHORT)), False, False),
    ],
)
def test_after_its_patience_a_gang_keeps_nothing_of_what_its_quota_lets_in(
    job: JobBuilder, asks: bool, back: bool
) -> None:
    seen = job.snapshot()
    assert (only_asks(seen, NOW), gives_back(seen, NOW)) == (asks, back)
    assert Place.of(seen, NOW).is_patience_over is (
        asks or find(job.status, ConditionType.CAPACITY_AVAILABLE) is not None
    )


def test_the_line_is_ordered_by_priority_then_age_then_uid() -> None:
    in_order = [
        a_job(1, priority=5).with_facts(created_at=ago(1), uid="z"),
        a_job(1).with_facts(created_at=ago(9), uid="y"),
        a_job(1).with_facts(created_at=ago(8), uid="a"),
        a_job(1).with_facts(created_at=ago(8), uid="b"),
        lacking_for(PATIENCE.total_seconds(), a_job(1, priority=9)).with_facts(uid="c"),
    ]
    places = [Place.of(job.snapshot(), NOW) for job in in_order]
    assert sorted(places, reverse=True)[::-1] == places


def test_a_turn_is_over_after_a_while_without_nodes() -> None:
    job = lacking_for(5, a_job(1)).snapshot()
    assert not Place.of(job, NOW).is_patience_over
    assert Place.of(job, NOW + PATIENCE - timedelta(seconds=5)).is_patience_over


def test_while_it_waits_it_stays_known_that_nodes_are_lacking() -> None:
    job = lacking_for(5, a_job(1)).with_facts(may_hold_nodes=False)
    kind = ConditionType.CAPACITY_AVAILABLE
    assert find(job.decide().status, kind) == find(job.status, kind)


def test_survivors_with_the_state_do_not_give_their_nodes_back() -> None:
    survivor = (
        a_job(2, min=2)
        .with_worker(0, ready=True, arrived=1)
        .with_world("", 2, is_active=False, state_holders="0")
        .with_facts(may_hold_nodes=False)
    )
    assert all(action.worker_id != 0 for action in survivor.decide().actions)  # type: ignore[union-attr]


def test_a_gang_larger_than_its_quota_says_what_it_needs_and_what_it_does() -> None:
    job = a_job(8, min=8).with_workers(0, 1, 2, 3).with_facts(**SHORT)
    first = job.decide().status
    needs = "at least 8 workers are needed at once, which is pods=8"
    assert (first.reason, first.message) == ("QuotaExceeded", f"{needs}; {WORDS}")
    condition = find(first, ConditionType.TEMPLATE_ACCEPTED)
    assert condition is not None
    assert (condition.status.value, condition.reason, condition.message) == (
        "False",
        "QuotaExceeded",
        WORDS,
    )

    late = short_for(600, job).with_facts(may_hold_nodes=False).decide()
    removed = [action for action in late.actions if isinstance(action, Remove)]
    assert [action.reason for action in removed] == [Reason.QUOTA_EXCEEDED] * 4
    kept = "none is kept while there is no room for so many"
    assert (late.status.reason, late.status.message) == (
        "QuotaExceeded",
        f"{needs}; {kept}; {WORDS}",
    )


def test_survivors_with_the_state_are_kept_when_a_quota_refuses_the_rest() -> None:
    job = a_job(2, min=2).with_worker(0, ready=True, arrived=1)
    job = job.with_world("", 2, is_active=False, state_holders="0").with_status(phase="Recovering")
    decision = short_for(600, job).with_facts(may_hold_nodes=False).decide()
    assert not any(isinstance(action, Remove) for action in decision.actions)
    assert decision.status.reason == "QuotaExceeded"
    assert "none is kept" not in (decision.status.message or "")


def test_who_waits_for_another_gang_says_so_and_its_own_patience_is_not_used_up() -> None:
    job = a_job(4, min=4).with_workers(0, 1).with_facts(**SHORT, may_hold_nodes=False)
    status = job.decide().status
    message = f"another job gets all nodes of its gang first: by priority, then by age; {WORDS}"
    assert (status.reason, status.message) == ("WaitingForGang", message)
    assert find(status, ConditionType.TEMPLATE_ACCEPTED) is None
    known = short_for(60, job)
    kind = ConditionType.TEMPLATE_ACCEPTED
    assert find(known.decide().status, kind) == find(known.status, kind)


def test_a_new_leader_goes_on_from_what_status_says_of_a_quota() -> None:
    before = short_for(60, a_job(4, min=4).with_workers(0, 1))
    before = before.with_status(reason="QuotaExceeded", message="as it was said")
    status = before.with_facts(refusal=None).decide().status
    kind = ConditionType.TEMPLATE_ACCEPTED
    assert (status.reason, status.message) == ("QuotaExceeded", "as it was said")
    assert find(status, kind) == find(before.status, kind)


def test_with_enough_for_the_smallest_world_a_quota_is_in_nobodys_way() -> None:
    job = a_job(4, min=2).with_workers(0, 1).with_facts(**SHORT)
    assert job.decide().status.reason == "WaitingForWorkers"
    running = a_job(4, min=2).training(0, 1).with_facts(**SHORT).decide().status
    condition = find(running, ConditionType.TEMPLATE_ACCEPTED)
    assert running.reason == "Training"
    assert condition is not None
    assert condition.message == WORDS
