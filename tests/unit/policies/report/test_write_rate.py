"""How soon a status is written."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.report.write_rate import ends_trial, refresh_seconds, seconds_to_write
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState, World
from spotrun.state.stored.cost import Accumulators
from spotrun.state.stored.statements import RecordedDecision
from spotrun.state.stored.training import AcknowledgedCheckpoint, LocalCheckpoint, Pace, Progress
from spotrun.state.stored.workers import GivenWay, Interruptions, WorkerCounts
from spotrun.wire import Metric
from tests.support.jobs.builders import NOW, ON_CLAIM, a_job

SAVED = AcknowledgedCheckpoint(name="step-3.g1", step=3, time=datetime(2026, 3, 1, 8, tzinfo=UTC))
IN_WORLD_2 = Accumulators(world_number=2)


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ({}, float("inf")),
        ({"phase": Phase.RUNNING}, 0.0),
        ({"next_worker_id": 4}, 0.0),
        ({"gives_way": GivenWay("ns/high", "u", 0, NOW)}, 0.0),
        ({"decisions": (RecordedDecision(NOW, "MakesRoom", "ns/low shrinks", {}),)}, 0.0),
        ({"decisions": (RecordedDecision(NOW, "Stay", "it has its best size", {}),)}, 59.0),
        ({"settled": WorkerIds("0").ranges}, 1.0),
        ({"progress": Progress(step=0, total_steps=9)}, 59.0),
        ({"progress": Progress(step=3)}, 4.0),
        ({"checkpoint": SAVED}, 4.0),
        ({"local_checkpoint": LocalCheckpoint(step=4, time=SAVED.time)}, 59.0),
        ({"metrics": (Metric("loss", 0.5, 3),)}, 4.0),
        ({"pace": Pace(changeovers=(90,))}, 1.0),
        ({"interruptions": Interruptions(lost_steps=9)}, 1.0),
        ({"interruptions": Interruptions(lost_steps=9), "accumulators": IN_WORLD_2}, 0.0),
        ({"interruptions": Interruptions(count=1), "accumulators": IN_WORLD_2}, 1.0),
        ({"pace": Pace(step_seconds=Decimal(1))}, 59.0),
    ],
)
def test_what_others_act_on_is_written_at_once(change: dict[str, Any], seconds: float) -> None:
    old = JobState(phase=Phase.PENDING)
    assert seconds_to_write(old, replace(old, **change), 1.0) == seconds


@pytest.mark.parametrize(
    ("change", "seconds"),
    [({"checkpoint": SAVED}, 4.0), ({"progress": Progress(step=4)}, 4.0), ({"message": "x"}, 4.0)],
)
def test_where_a_metric_is_waited_for_saves_make_it_no_older(
    change: dict[str, Any], seconds: float
) -> None:
    old = JobState(
        phase=Phase.RUNNING, progress=Progress(step=3), checkpoint=replace(SAVED, step=2)
    )
    assert seconds_to_write(old, replace(old, **change), 1.0, 5.0) == seconds


STARTING = {"phase": Phase.STARTING, "workers": WorkerCounts(summary="3/8")}


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        pytest.param({"message": "1 has a node"}, 59.0, id="only the words are others"),
        pytest.param({"workers": WorkerCounts(summary="3/8")}, 9.0, id="some run"),
        pytest.param(STARTING, 4.0, id="some have a node"),
        pytest.param({**STARTING, "reason": "WaitingForWorkers"}, 4.0, id="enough have a node"),
        pytest.param({"reason": "WaitingForGang"}, 0.0, id="another comes first"),
        pytest.param({**STARTING, "reason": "CannotStart"}, 0.0, id="its image is not there"),
        pytest.param({**STARTING, "phase": Phase.RUNNING}, 0.0, id="it trains"),
        pytest.param({**STARTING, "next_worker_id": 9}, 0.0, id="one more is to be made"),
        pytest.param({**STARTING, "failed": frozenset({0})}, 1.0, id="one of them has failed"),
    ],
)
def test_how_far_a_gang_is_that_starts_is_told_in_seconds_and_not_at_each_step(
    change: dict[str, Any], seconds: float
) -> None:
    old = JobState(phase=Phase.PENDING, reason="WaitingForCapacity", next_worker_id=8)
    stated = state_of(old)
    assert seconds_to_write(stated, state_of(replace(old, **change)), 1.0) == seconds


def state_of(status: JobState) -> JobState:
    """With the condition that says the same."""
    kind, reason = ConditionType.RUNNING, status.reason or ""
    return state(a_job(1).view(), status, kind, reason, "", holds=False)


def test_how_many_of_a_job_that_trains_run_is_told_sooner() -> None:
    old = JobState(phase=Phase.RUNNING, workers=WorkerCounts(summary="8/8"))
    fewer = replace(old, workers=WorkerCounts(summary="7/8"))
    assert seconds_to_write(old, fewer, 1.0) == 1.0


def test_first_steps_and_a_first_checkpoint_are_told_in_seconds_and_later_ones_with_the_rest() -> (
    None
):
    begun = JobState(phase=Phase.RUNNING, progress=Progress(step=3), checkpoint=SAVED)
    more = replace(begun, progress=Progress(step=4))
    saved = replace(SAVED, name="step-4.g1", step=4)
    assert seconds_to_write(begun, more, 1.0) == 59.0
    assert seconds_to_write(begun, replace(more, checkpoint=saved), 1.0) == 29.0


def test_the_empty_world_of_a_job_that_has_succeeded_is_written_with_the_ends_of_its_workers() -> (
    None
):
    world = World(number=1, members=(0,), is_active=True)
    empty = World(number=2)
    over = JobState(phase=Phase.SUCCEEDED, world=world, next_worker_id=3)
    assert seconds_to_write(over, replace(over, world=empty), 0.5) == 4.5
    for settled, seconds in (("0-1", 4.5), ("0-2", 1.5)):
        ends = replace(over, world=empty, settled=WorkerIds(settled).ranges)
        assert seconds_to_write(over, ends, 0.5) == seconds
    running = replace(over, phase=Phase.RUNNING)
    assert seconds_to_write(running, replace(running, world=empty), 0.5) == 0.0


def test_that_a_template_is_accepted_waits_for_the_next_write_unless_it_was_refused() -> None:
    job, kind = a_job(1), ConditionType.TEMPLATE_ACCEPTED
    accepted = state(job.view(), job.status, kind, Reason.TRAINING, "fine", holds=True)
    refused = state(job.view(), job.status, kind, Reason.TEMPLATE_REFUSED, "no", holds=False)
    assert seconds_to_write(job.status, accepted, 1.0) == 59.0
    assert seconds_to_write(job.status, refused, 1.0) == 0.0
    assert seconds_to_write(accepted, refused, 1.0) == 0.0
    assert seconds_to_write(refused, accepted, 1.0) == 0.0


def test_why_a_job_does_not_start_is_told_in_seconds_and_of_one_that_trains_with_the_rest() -> None:
    def lacking(why: str) -> JobState:
        kind, reason = ConditionType.CAPACITY_AVAILABLE, Reason.WAITING_FOR_CAPACITY
        return state(job.view(), job.status, kind, reason, why, holds=False)

    job = a_job(1)
    unplaced, turned_down = lacking("no node"), lacking("no node; no autoscaler makes one")
    assert seconds_to_write(unplaced, turned_down, 1.0) == 9.0
    world = World(number=1, members=(0,), is_active=True)
    both = (replace(unplaced, world=world), replace(turned_down, world=world))
    assert seconds_to_write(*both, 1.0) == 59.0


def test_jobs_that_started_together_are_not_refreshed_together() -> None:
    job = a_job(1).snapshot()
    paces = sorted(refresh_seconds(replace(job, uid=f"uid-{number}")) for number in range(600))
    assert paces[0] >= 60
    assert paces[-1] <= 90
    assert all(late - early < 1 for early, late in pairwise(paces)), "some in each second"
    assert refresh_seconds(replace(job, uid="uid-7")) == refresh_seconds(replace(job, uid="uid-7"))


def test_the_last_values_of_a_job_are_written_soon() -> None:
    old = JobState(phase=Phase.SUCCEEDED, metrics=(Metric("loss", 0.5, 3),))
    new = replace(old, metrics=(Metric("loss", 0.4, 9),))
    assert seconds_to_write(old, new, 1.0) == 1.0


def test_of_a_trial_the_values_are_never_old() -> None:
    job = replace(a_job(1).snapshot(), is_trial=True)
    old = JobState(metrics=(Metric("loss", 0.5, 3),))
    new = replace(old, metrics=(Metric("loss", 0.4, 9),))
    assert seconds_to_write(old, new, 1.0, refresh_seconds(job)) == 4.0


@pytest.mark.parametrize(
    ("is_trial", "settled", "ends"),
    [(True, "0-2", True), (True, "0-1", False), (False, "0-2", False)],
)
def test_a_search_learns_at_once_that_a_trial_costs_nothing_more(
    is_trial: bool, settled: str, ends: bool
) -> None:
    over = JobState(phase=Phase.SUCCEEDED, next_worker_id=3)
    job = replace(a_job(1).snapshot(), is_trial=is_trial, status=over)
    new = replace(over, settled=WorkerIds(settled).ranges)
    assert ends_trial(job, new) is ends
    assert not ends_trial(replace(job, status=new), new)


def test_workers_with_a_budget_are_told_every_minute_until_when_they_may_stay() -> None:
    job = a_job(1, budget={"maxCostUsd": "5"}, checkpoint=ON_CLAIM).snapshot()
    assert {refresh_seconds(replace(job, uid=f"uid-{number}")) for number in range(9)} == {60.0}
