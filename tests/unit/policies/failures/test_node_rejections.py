"""Nodes that do not take workers: nobody's failure, and no reason to ask one of them on and on."""

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spotrun.api.field_types.text_values import Time, WorkerIds
from spotrun.api.names import Phase, Reason
from spotrun.api.status import MOST_AVOIDED
from spotrun.policies.failures.node_rejections import AVOIDED_FOR, nodes_that_reject
from spotrun.state.actions import Create, Release, Withdraw
from spotrun.state.snapshot import Node, PodEnd, PodPhase
from spotrun.state.stored.failures import NO_RESTARTS, Rejections
from spotrun.state.stored.workers import NO_INTERRUPTIONS
from tests.support.jobs.builders import NOW, JobBuilder, a_job, a_worker, ago, later

WORDS = "Pod was rejected: Node didn't have enough resource: cpu"
SAID = f"node node-2 rejected worker 2: OutOfcpu: {WORDS}"
NO_NODE = "0/2 nodes are available"


def rejected(**pod: Any) -> dict[str, Any]:
    end = PodEnd(pod_reason="OutOfcpu", pod_message=WORDS)
    return {"phase": PodPhase.FAILED, "end": end, **pod}


def training_job(**restarts: Any) -> JobBuilder:
    """Two of three train; the replacement of the third was rejected."""
    job = a_job(3, min=1, **restarts).training(0, 1)
    return job.with_worker(2, **rejected())


def noted(seconds: float = 0.0, count: int = 1, worker: int = 2, **fields: Any) -> Rejections:
    """That the last one was noted so many seconds ago."""
    pause = {1: 10, 2: 20, 3: 40}[count]
    retry_at = later(pause - seconds)
    given = {"nodes": ("node-2",), "message": SAID, **fields}
    return Rejections(count=count, worker=worker, retry_at=retry_at, **given)


def after_it(**rejections: Any) -> JobBuilder:
    """Its pod is settled, and another number given out."""
    job = training_job().with_status(settled=WorkerIds("2").ranges, next_worker_id=4)
    return job.with_status(rejections=noted(**rejections))


def made(job: JobBuilder) -> list[Create]:
    return [action for action in job.decide().actions if isinstance(action, Create)]


def test_a_rejected_worker_is_neither_a_failure_nor_an_interruption() -> None:
    decision = training_job(failures={"maxRestarts": 0}).decide()
    status = decision.status
    assert (status.restarts, status.interruptions) == (NO_RESTARTS, NO_INTERRUPTIONS)
    assert status.phase is Phase.RUNNING
    assert status.rejections == noted()
    assert (str(status.settled), status.next_worker_id) == ("2", 4)
    assert decision.actions == (Release(2, "uid-2"),), "the next one is made after a pause"
    assert decision.wake_after_seconds <= 10


def test_it_is_stored_at_once_though_nobody_is_missing() -> None:
    job = a_job(2).training(0, 1).with_worker(2, **rejected()).with_facts(written_seconds=0.5)
    assert job.decide().status.rejections == noted()


def test_after_the_pause_the_next_one_keeps_away_from_that_node() -> None:
    assert made(after_it(seconds=9.9)) == []
    assert made(after_it(seconds=10)) == [Create(3, ("node-2",))]


def test_a_node_goes_by_its_host_name() -> None:
    job = training_job().with_worker(2, node=Node("node-2", hostname="host-2"), **rejected())
    rejections = job.decide().status.rejections
    assert rejections is not None
    assert rejections.nodes == ("host-2",)


def test_after_two_minutes_more_that_node_may_be_used_again() -> None:
    forgotten = 10 + AVOIDED_FOR.total_seconds()
    assert made(after_it(seconds=forgotten - 0.1)) == [Create(3, ("node-2",))]
    assert made(after_it(seconds=forgotten)) == [Create(3)]


@pytest.mark.parametrize(
    ("known", "another", "count", "pause"),
    [
        pytest.param(None, None, 1, 10, id="the first"),
        pytest.param(noted(10, worker=1), None, 2, 20, id="the second in a row"),
        pytest.param(noted(500, 2, worker=1), None, 3, 40, id="in a row, but much later"),
        pytest.param(noted(8, worker=1), None, 1, 2, id="made before the pause of another"),
        pytest.param(noted(60, 3, worker=1), {"node": None}, 4, 80, id="a later one waits"),
        pytest.param(noted(60, 3, worker=1), {}, 1, 10, id="a later one was taken"),
        pytest.param(noted(60, 3, worker=9), {}, 4, 80, id="only an earlier one was taken"),
    ],
)
def test_the_pause_grows_until_one_is_taken(
    known: Rejections | None, another: dict[str, Any] | None, count: int, pause: int
) -> None:
    job = training_job().with_status(rejections=known)
    if another is not None:
        job = job.with_worker(5, **another)
    rejections = job.decide().status.rejections
    assert rejections is not None
    assert (rejections.count, rejections.worker) == (count, 2)
    assert rejections.retry_at == later(pause)


def test_a_gang_that_is_rejected_together_begins_one_pause() -> None:
    job = a_job(3).with_workers(0, 1, 2, **rejected())
    rejections = job.decide().status.rejections
    assert rejections is not None
    assert (rejections.count, rejections.worker) == (1, 2)
    assert rejections.nodes == ("node-0", "node-1", "node-2")


def test_where_many_nodes_reject_workers_together_all_are_kept_away_from() -> None:
    job = a_job(50).with_workers(*range(50), **rejected())
    nodes = nodes_that_reject(job.view(), job.decide().status)
    assert nodes == tuple(f"node-{number}" for number in range(50))


def test_the_newest_nodes_are_remembered_each_once() -> None:
    nodes = tuple(f"n{number}" for number in range(MOST_AVOIDED))
    job = training_job().with_status(rejections=noted(60, worker=1, nodes=(*nodes[:8], "node-2")))
    assert nodes_that_reject(job.view(), job.decide().status) == (*nodes[:8], "node-2")
    full = training_job().with_status(rejections=noted(60, worker=1, nodes=nodes))
    assert nodes_that_reject(full.view(), full.decide().status) == (*nodes[1:], "node-2")


def test_it_is_said_with_the_kubelets_words_until_others_have_a_node() -> None:
    job = after_it()
    words = f"{SAID}; its replacement is created at {Time.of(later(10))}, for another node"
    status = job.decide().status
    assert (status.reason, status.message) == ("Training", f"2 workers train; {words}")
    whole = job.with_worker(3).decide().status
    assert whole.message == "2 workers train"
    waiting = a_job(1).with_worker(2, **rejected()).with_status(settled=WorkerIds("0-2").ranges)
    status = waiting.with_status(next_worker_id=4, rejections=noted()).decide().status
    assert (status.phase, status.reason) == (Phase.PENDING, "Rejected")
    assert status.message == f"0 of at least 1 workers are ready, 0 have a node; {words}"


def test_a_node_that_shuts_down_has_reclaimed_it_and_is_avoided_as_well() -> None:
    end = PodEnd(
        pod_reason="NodeShutdown",
        pod_message="Pod was rejected: Pod was rejected as the node is shutting down.",
    )
    status = training_job().with_worker(2, **rejected(end=end)).decide().status
    assert status.interruptions.last is not None
    assert status.interruptions.last.reason == Reason.RECLAIMED
    assert status.rejections is not None
    assert status.rejections.nodes == ("node-2",)


def test_a_job_that_wants_no_workers_waits_for_none() -> None:
    status = training_job(suspend=True).decide().status
    assert (status.rejections, str(status.settled)) == (None, "2")


def test_a_member_that_its_kubelet_does_not_take_back_was_taken_from_the_job() -> None:
    """A kubelet that has started again looks at all its pods anew."""
    job = a_job(2, min=1, failures={"maxRestarts": 0}).training(0, 1).with_worker(1, **rejected())
    counted = job.with_facts(lost_seconds={1: 1.0}).decide().status
    assert counted.restarts == NO_RESTARTS
    assert counted.world.members == (0,)


def test_who_finds_no_other_node_is_made_anew_when_that_one_may_be_used_again() -> None:
    job = after_it(seconds=130.0).with_worker(
        3, node=None, unschedulable=NO_NODE, avoids=("node-2",), created_at=ago(600)
    )
    (taken,) = [one for one in job.decide().actions if isinstance(one, Withdraw)]
    assert taken.worker_id == 3
    sooner = replace(job.workers[3].pod, created_at=ago(597))
    waiting = replace(job, workers={**job.workers, 3: replace(job.workers[3], pod=sooner)})
    decision = waiting.decide()
    assert not any(isinstance(one, Withdraw) for one in decision.actions)
    assert decision.wake_after_seconds == 3


@pytest.mark.parametrize("is_alone", [True, False])
def test_however_long_all_nodes_reject_them_the_job_goes_on_and_asks_less_and_less_often(
    is_alone: bool,
) -> None:
    job = a_job(3, min=1) if is_alone else a_job(3, min=1).training(0, 1)
    times: list[float] = []
    for second in range(1800):
        decision = job.decide(NOW + timedelta(seconds=second))
        assert decision.status.phase is not Phase.FAILED
        job = replace(job, status=decision.status)
        new = [one.worker_id for one in decision.actions if isinstance(one, Create)]
        times += [second] if new else []
        workers = {n: a_worker(n, node=f"n-{n}", **rejected()) for n in new}
        job = replace(job, workers={**job.workers, **workers})
    pauses = [after - before for before, after in itertools.pairwise(times)]
    # A second passes before a rejection is seen.
    assert pauses[:8] == [11, 21, 41, 81, 161, 301, 301, 301]
    assert job.status.restarts == NO_RESTARTS
