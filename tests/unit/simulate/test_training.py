"""The virtual training: steps, checkpoints, and what is left of them after a loss."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from spotrun.api.status import Entry
from spotrun.simulate.cluster import Cluster
from spotrun.simulate.scenario import Rules
from spotrun.simulate.training import Training
from spotrun.state.actions import Create, Placed
from spotrun.state.job_state import JobState, Orders, World
from tests.unit.simulate.markets import ASKING, GAP, PUBLISHED, a_job, a_market


def begun(workers: int = 2, rules: Rules = PUBLISHED, picture: str = "44444") -> Training:
    """So many workers of a job for two, ready and told to train together."""
    cluster = Cluster(a_market(picture, rules=rules), rules)
    for worker_id in range(workers):
        cluster.do(Create(worker_id, place=Placed(required=("p3.2xlarge-us-west-2a-spot",))))
    cluster.serve()
    cluster.now = GAP
    training = Training(a_job(10, 20, workers=2, max_workers=4), rules, cluster)
    training.follow(a_status(workers))
    return training


def a_status(workers: int, number: int = 1, entry: Entry = Entry.RESTART, **world: Any) -> JobState:
    made = World(
        number=number,
        members=tuple(range(workers)),
        is_active=True,
        entry=entry,
        store="10.0.0.1:20000",
        formed_at=datetime(2026, 1, 1, 0, 10, tzinfo=UTC),
        **world,
    )
    return JobState(world=made)


def advance(training: Training, seconds: float) -> None:
    training.advance(seconds)
    training._cluster.now += seconds


@pytest.mark.parametrize(("workers", "steps"), [(1, 50), (2, 100), (4, 200)])
def test_a_world_is_as_fast_as_it_is_large(workers: int, steps: float) -> None:
    training = begun(workers)

    advance(training, 100)

    states = {worker.state for worker in training._cluster.workers.values()}
    assert states == {steps}


def test_nobody_trains_until_all_are_there() -> None:
    training = begun(2)
    training._cluster.workers[1].arrived = 0
    training._cluster.workers[1].ready_at = 2 * GAP
    training.follow(a_status(2))

    assert training.pace == 0


def test_checkpoints_come_when_they_are_due() -> None:
    training = begun(2, ASKING)

    assert training.next_event() == pytest.approx(GAP + 2 * GAP)
    advance(training, 2 * GAP - 1)
    assert training.saved is None
    advance(training, 1)

    assert training.saved is not None
    assert (training.saved.name, training.saved.step) == ("step-1200.g1", 1200)


def test_what_comes_at_the_price_of_nothing_is_always_saved() -> None:
    training = begun(2)

    advance(training, 0.5 * GAP)

    assert training.saved is not None
    assert training.saved.step == 300


def test_an_order_saves_at_once_and_only_once() -> None:
    training = begun(2, ASKING)
    advance(training, 60)
    ordered = replace(a_status(2), orders=Orders(1, datetime(2026, 1, 1, 0, 11, tzinfo=UTC)))

    training.follow(ordered)
    first = training.saved
    advance(training, 60)
    training.follow(ordered)

    assert first is not None
    assert first.step == 60
    assert training.saved == first


def test_a_restart_goes_back_to_the_checkpoint() -> None:
    training = begun(2, ASKING)
    advance(training, 2 * GAP)
    advance(training, 90)
    assert training.saved is not None

    training.follow(a_status(2, 2, restore=training.saved.name))

    assert training.lost_steps == 90
    assert training._cluster.workers[0].state == 1200


def test_a_restart_without_a_checkpoint_begins_again() -> None:
    training = begun(2, ASKING)
    advance(training, 90)

    training.follow(a_status(2, 2))

    assert training.lost_steps == 90
    assert training._cluster.workers[0].state == 0


def test_survivors_bring_the_state_along() -> None:
    training = begun(2, ASKING)
    advance(training, 90)
    del training._cluster.workers[1]
    assert training.pace == 1

    training.follow(a_status(2))
    assert training.pace == 0
    training.follow(a_status(1, 2, entry=Entry.ABORT, state_holders=(0,)))

    assert training.lost_steps == 0
    assert training._cluster.workers[0].state == 90
    assert training.pace == 0.5


def test_the_work_ends_on_its_last_step() -> None:
    training = begun(2)
    seconds = training.next_event() - GAP

    assert seconds == pytest.approx(10 * GAP)
    advance(training, seconds)

    assert training.is_complete
    assert training.saved is not None
    assert training.saved.step == 6000
