"""Failures that followed from another one: they are neither the cause nor blamed."""

import pytest

from spotrun.state.snapshot import Node
from spotrun.state.stored.failures import Restarts
from spotrun.wire import Failure
from tests.support.jobs.builders import JobBuilder, a_job, ago, later

NOTICED = Failure(5, 1, "rank 0 ended with exit code 1: gloo: Connection closed by peer", True)


RAISED = Failure(5, 3, "rank 1 ended with exit code 3: ValueError: no label")


def reported(*failures: Failure | None) -> JobBuilder:
    """Return a world in which these workers have told their failures."""
    job = a_job(2, min=2).training(0, 1, world_number=5)
    for worker_id, failure in enumerate(failures):
        if failure is not None:
            job = job.with_worker(worker_id, ready=True, arrived=5, failed=failure)
    return job


@pytest.mark.parametrize("order", [(NOTICED, RAISED), (RAISED, NOTICED)])
def test_of_two_failures_the_one_that_followed_is_not_the_cause(order: tuple[Failure, ...]) -> None:
    restarts = reported(*order).decide().status.restarts
    assert (restarts.failures, restarts.last_message) == (1, RAISED.message)
    assert restarts.blamed == (f"node-{order.index(RAISED)}",)


def test_a_cause_that_is_told_later_takes_the_place_of_what_followed_from_it() -> None:
    first = reported(NOTICED, None).decide().status
    assert (first.restarts.failures, first.restarts.blamed) == (1, ())
    assert first.restarts.last_follows
    later_told = reported(NOTICED, RAISED).with_state(first).decide(later(1)).status
    restarts = later_told.restarts
    assert (restarts.failures, restarts.last_exit_code) == (1, 3)
    assert (restarts.last_message, restarts.blamed) == (RAISED.message, ("node-1",))
    assert restarts.retry_at == first.restarts.retry_at
    assert not restarts.last_follows


def test_where_nobody_has_said_a_cause_those_who_go_on_are_named() -> None:
    said = reported(NOTICED, None).decide().status.restarts.last_message
    assert said is not None
    assert said.startswith(NOTICED.message)
    assert "; rank 1 (job-1 on node node-1) had not failed: look there" in said


def test_a_follower_that_a_lost_node_explains_takes_back_no_blame_of_others() -> None:
    before = Restarts(failures=1, counted_since=ago(600), last_world=4, blamed=("node-0",))
    counted = reported(NOTICED, None).with_status(restarts=before)
    counted = counted.with_status(restarts=counted.decide().status.restarts)
    lost = counted.with_worker(1, node=Node("n", gone=True)).decide(later(4)).status
    assert (lost.restarts.failures, lost.restarts.blamed) == (1, ("node-0",))
