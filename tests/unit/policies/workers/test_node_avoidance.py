"""Nodes that new workers keep away from, and for how long."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.field_types.intervals import NO_NUMBERS
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Reason
from spotrun.state.actions import Create, Remove, Withdraw
from spotrun.state.snapshot import Node, PodEnd
from spotrun.state.worker_outcomes import in_doubt
from tests.support.jobs.builders import JobBuilder, a_job, ago, an_end, later

SILENT = 1.5
NO_NODE = "0/2 nodes are available"


def avoided(job: JobBuilder) -> tuple[str, ...]:
    """What the next worker of this job keeps away from."""
    number = job.status.next_worker_id or 0
    actions = job.with_status(next_worker_id=number + 1).decide().actions
    return next(one.avoid_nodes for one in actions if isinstance(one, Create))


def training_job(**worker: Any) -> JobBuilder:
    """Three workers that train, each on its node; the second is missed, and silent."""
    job = a_job(3).training(0, 1, 2)
    job = job.with_workers(0, 2, ready=True, arrived=1, suspects=(1,), store_port=1)
    return job.with_worker(1, ready=True, arrived=1, heard=SILENT, **worker)


def after_the_loss() -> JobBuilder:
    """The others train without it and miss nobody; its pod is being deleted."""
    lost = {"ready": True, "arrived": 1, "heard": 20.0, "deleting": True, "killed_at": later(100)}
    job = a_job(3).training(0, 2, world_number=2).with_worker(1, **lost)
    return job.with_status(lost=frozenset({1}))


def test_a_replacement_keeps_away_from_the_node_of_a_worker_that_fell_silent() -> None:
    assert avoided(training_job()) == ("node-1",)


def test_a_node_goes_by_its_host_name() -> None:
    assert avoided(training_job(node=Node("node-1", hostname="host-1"))) == ("host-1",)


def test_who_was_given_up_stays_lost_though_nobody_misses_it_any_more() -> None:
    job = after_the_loss()
    assert sorted(job.view().alive_worker_ids) == [0, 2]
    assert avoided(job) == ("node-1",)


def test_a_loss_is_remembered_until_the_worker_is_settled() -> None:
    status = training_job().decide().status
    assert status.lost == {1}
    ended = after_the_loss().with_worker(1, ready=True, **an_end(None, 143), deleting=True)
    settled = ended.decide().status
    assert (str(settled.settled), settled.lost) == ("1", frozenset())


def test_a_number_whose_pod_vanished_is_no_longer_lost_so_that_it_can_be_made_again() -> None:
    assert not after_the_loss().without(1).decide().status.lost


@pytest.mark.parametrize(
    "end",
    [
        pytest.param({**an_end(None, 143), "ended_at": ago(1)}, id="of all of it"),
        pytest.param({"end": PodEnd(exit_code=143)}, id="beside a container that runs on"),
    ],
)
def test_a_node_is_alive_once_the_end_of_its_worker_is_told(end: dict[str, Any]) -> None:
    assert avoided(after_the_loss().with_worker(1, ready=True, deleting=True, **end)) == ()


def test_a_node_is_alive_while_another_worker_there_is_heard() -> None:
    shared = Node("shared")
    job = after_the_loss()
    lost = replace(job.workers[1], node=shared)
    there = replace(job, workers={**job.workers, 1: lost})
    assert avoided(there) == ("shared",)
    assert avoided(there.with_worker(2, ready=True, arrived=2, node=shared)) == ()
    silent = there.with_worker(2, ready=True, arrived=2, node=shared, heard=0.9)
    assert avoided(silent) == ("shared",)


def test_all_workers_of_a_doubtful_node_are_asked_for_a_sign_of_life() -> None:
    job = a_job(4).training(0, 1, 2, 3)
    for worker_id in (1, 2):
        job = job.with_worker(worker_id, ready=True, arrived=1, node="shared")
    job = job.with_worker(0, ready=True, arrived=1, suspects=(1,))
    assert in_doubt(job.snapshot()) == {1, 2}
    assert sorted(job.view().alive_worker_ids) == [0, 1, 2, 3]


def test_a_worker_given_up_is_counted_as_an_interruption_at_once_and_only_once() -> None:
    taken = training_job().decide().status
    assert (taken.interruptions.count, str(taken.settled)) == (1, "")
    assert taken.interruptions.last is not None
    assert taken.interruptions.last.reason == Reason.NODE_LOST
    later_on = after_the_loss().with_status(interruptions=taken.interruptions)
    gone = replace(later_on.workers[1], node=Node("node-1", gone=True, ready=False))
    settled = replace(later_on, workers={**later_on.workers, 1: gone}).decide().status
    assert str(settled.settled) == "1"
    assert settled.interruptions == taken.interruptions


def a_waiting_worker(**pod: Any) -> JobBuilder:
    """A replacement that finds no node, made so many seconds ago."""
    job = a_job(3).training(0, 2, world_number=2)
    facts = {"node": None, "unschedulable": NO_NODE, "avoids": ("node-1",), **pod}
    return job.with_worker(3, **facts).with_status(settled=WorkerIds("1").ranges)


def taken_back(job: JobBuilder) -> list[int]:
    return [one.worker_id for one in job.decide().actions if isinstance(one, Withdraw)]


def test_who_finds_no_node_but_those_it_kept_away_from_is_made_anew() -> None:
    assert taken_back(a_waiting_worker(created_at=ago(601))) == [3]


def test_it_is_given_the_time_that_a_new_node_takes() -> None:
    assert taken_back(a_waiting_worker(created_at=ago(599))) == []


def test_it_waits_on_while_nothing_is_heard_from_there() -> None:
    job = a_waiting_worker(created_at=ago(601)).with_status(settled=NO_NUMBERS, lost=frozenset({1}))
    lost = after_the_loss().workers[1]
    assert taken_back(replace(job, workers={**job.workers, 1: lost})) == []


def test_who_waits_for_another_reason_is_left_alone() -> None:
    assert taken_back(a_waiting_worker(created_at=ago(601), avoids=())) == []
    assert taken_back(a_waiting_worker(created_at=ago(601), unschedulable="")) == []


def test_who_was_given_up_is_removed_however_long_it_takes() -> None:
    lost = after_the_loss().with_worker(1, ready=True, arrived=1, heard=20.0)
    removed = [one for one in lost.decide().actions if isinstance(one, Remove)]
    assert [(one.worker_id, one.reason) for one in removed] == [(1, Reason.NODE_LOST)]
