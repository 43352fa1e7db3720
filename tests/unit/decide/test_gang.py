"""Who stands in line for nodes, and at which place."""

from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.names import ConditionType, Reason
from spotrun.api.status import TrainingJobStatus
from spotrun.decide.gang import PATIENCE, Place, is_incomplete, lacks_nodes
from spotrun.decide.ledger import find, state
from tests.decide_builders import NOW, JobBuilder, a_job, ago, an_end

FULL: dict[str, Any] = {"node": None, "unschedulable": "0/3 nodes are available"}


def lacking_for(seconds: float, job: JobBuilder) -> JobBuilder:
    """A job of which it is known for so long that it lacks nodes."""
    kind, reason = ConditionType.CAPACITY_AVAILABLE, Reason.WAITING_FOR_CAPACITY
    known = state(job.view(ago(seconds)), TrainingJobStatus(), kind, reason, "", holds=False)
    return job.with_status(conditions=known.conditions)


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
        .with_world("", 2, switch=False, trained="0")
        .with_facts(may_hold_nodes=False)
    )
    assert all(action.serial != 0 for action in survivor.decide().actions)  # type: ignore[union-attr]
