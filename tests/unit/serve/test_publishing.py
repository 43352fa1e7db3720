from decimal import Decimal

from spotrun.decide.snapshot import PodPhase
from spotrun.serve.publishing import published
from spotrun.serve.told import Published
from tests.decide_builders import JobBuilder, a_job, a_spot_node
from tests.priced_nodes import a_node


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
