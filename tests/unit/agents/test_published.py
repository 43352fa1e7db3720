from dataclasses import replace
from decimal import Decimal

import pytest

from spotrun.agents.answers import Published
from spotrun.agents.long_poll import Board, WorkerKey
from spotrun.agents.published import publish, published
from spotrun.kube.resource import Key
from spotrun.state.snapshot import Broken, JobSnapshot, PodPhase
from spotrun.wire import Metric, Notice, Progress
from tests.support.jobs.builders import JobBuilder, a_job, a_spot_node, later
from tests.support.money.priced_nodes import a_node


def told(job: JobBuilder) -> Published:
    snapshot = job.snapshot()
    return published(snapshot, snapshot.status)


def test_workers_are_counted_by_the_pool_and_capacity_of_their_nodes() -> None:
    job = (
        a_job(5)
        .with_workers(0, 1, node=a_node("a", pool="g5"))
        .with_worker(2, node=a_spot_node("b"))
        .with_worker(3, node=a_node("c", pool="g5"), phase=PodPhase.PENDING)
        .with_worker(4, node=a_node("d", pool="g5", gone=True))
    )

    assert told(job).placed == {("g5", "OnDemand"): 2, ("", "Spot"): 1}


def test_a_budget_is_told_where_there_is_one() -> None:
    assert told(a_job(budget={"maxCostUsd": "12.50", "onExceeded": "Warn"})).budget_usd == Decimal(
        "12.50"
    )
    assert told(a_job(budget={"maxUsdPerHour": "3"})).budget_usd is None
    assert told(a_job()).budget_usd is None


def test_a_place_for_checkpoints_is_told() -> None:
    assert told(a_job(checkpoint={"uri": "s3://bucket/prefix"})).saves
    assert not told(a_job()).saves


def test_the_first_notice_of_those_who_train_is_told() -> None:
    job = a_job(3).training(0, 1).with_worker(0, ready=True, node="a", leaves_in=90.0)
    assert told(a_job(2).training(0, 1)).notice is None
    assert told(job).notice == Notice(later(90.0).timestamp(), "node a of job-0 goes away")
    job = job.with_worker(1, ready=True, node="b", leaves_in=30.0)
    job = job.with_worker(2, ready=True, node="c", leaves_in=10.0)  # it does not train yet
    assert told(job).notice == Notice(later(30.0).timestamp(), "node b of job-1 goes away")


def test_the_values_of_a_script_are_told() -> None:
    values = (Metric("loss", 2.5),)
    job = (
        a_job(2).training(0, 1).with_worker(1, ready=True, progress=Progress(1, 5, metrics=values))
    )
    assert told(job).metrics == values
    assert told(a_job(1)).metrics == ()


JOB = a_job(1).training(0).snapshot()
WORKER = WorkerKey("ns", "job", "job-0")


@pytest.mark.parametrize(
    ("job", "is_told"),
    [
        pytest.param(JOB, True, id="as mostly"),
        pytest.param(replace(JOB, broken=Broken("no")), True, id="it trains on as it is"),
        pytest.param(
            replace(JOB, broken=Broken("no", has_ledger=False)), False, id="its world is not known"
        ),
        pytest.param(
            replace(JOB, broken=Broken("no", has_template=False)),
            False,
            id="how it trains is not known",
        ),
    ],
)
def test_workers_are_told_of_what_is_known(job: JobSnapshot, is_told: bool) -> None:
    board = Board(b"key")
    publish(board, job, job.status, job.version)
    assert (board.answer(WORKER) is not None) == is_told


def test_a_mistake_in_what_they_are_told_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr("spotrun.agents.published.published", fail)
    board = Board(b"key")
    publish(board, JOB, JOB.status, JOB.version)
    assert not board.is_gone(Key("ns", "job"))
    assert "could not make the answers to the job's workers" in caplog.text
