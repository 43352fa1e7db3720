"""A joining worker fails while others train: it is held back, replaced elsewhere; no job ends."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from spotrun.api.names import Phase, Reason
from spotrun.api.status import Entry
from spotrun.policies.failures.joining_workers import held_back
from spotrun.policies.world.resize import PREPARE_SECONDS
from spotrun.state.actions import Remove
from spotrun.state.stored.failures import NO_RESTARTS, HeldBack, JoiningWorkers, Restarts
from spotrun.state.world_members import counted_on, on_trial, training
from spotrun.wire import WRONG_DEVICE, Failure, Progress
from tests.support.jobs.builders import JobBuilder, a_job, ago, an_end, later
from tests.support.jobs.joining_workers import BOOM, WARM_SECONDS, Joining

EVERYWHERE = {f"node-{n}" for n in range(2, 99)}
HOUR = 3600


def a_life(workers: int = 4, *, in_process: bool = True, **life: Any) -> Joining:
    """Workers 0 and 1 train; the others are on their way."""
    job = a_job(workers, min=1).training(0, 1, in_process=in_process)
    return Joining(job, in_process=in_process, **life)


# an hour with bad nodes -------------------------------------------------------------------------


@pytest.mark.parametrize("ends_pods", [False, True])
@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("crash_seconds", [1, 3, 10, 15])
def test_a_joining_worker_on_a_bad_node_is_replaced_elsewhere_and_then_all_train(
    crash_seconds: int, in_process: bool, ends_pods: bool
) -> None:
    life = a_life(
        in_process=in_process, bad={"node-3"}, crash_seconds=crash_seconds, ends_pods=ends_pods
    )
    life.live(HOUR)
    status = life.job.status
    assert (status.phase, len(training(status))) == (Phase.RUNNING, 4)
    assert {0, 1, 2} < set(training(status))
    assert "node-3" not in {process.node for process in life.processes.values()}
    restarts = status.restarts
    assert (restarts.failures or 0, restarts.blamed) == (0, ("node-3", "node-3"))
    assert restarts.joining_workers is None, "it is forgotten"
    assert life.num_worlds <= 8
    assert life.joined[2] <= 2 + WARM_SECONDS + PREPARE_SECONDS


@pytest.mark.parametrize("ends_pods", [False, True])
@pytest.mark.parametrize("in_process", [True, False])
def test_where_all_joining_workers_fail_the_others_train_on_and_little_is_written(
    in_process: bool, ends_pods: bool
) -> None:
    life = a_life(in_process=in_process, bad=EVERYWHERE, crash_seconds=5, ends_pods=ends_pods)
    life.live(HOUR)
    status = life.job.status
    assert status.phase is Phase.RUNNING
    assert {0, 1} <= set(training(status))
    assert life.num_worlds <= 50, "those of the first minutes, and three for each pause of 5 min"
    tries = sorted(set(life.crashed))
    assert max(later - former for former, later in pairwise(tries)) <= 300 + WARM_SECONDS
    assert len([at for at in tries if at > HOUR // 2]) <= 16


@pytest.mark.parametrize("in_process", [True, False])
def test_who_is_well_never_waits_longer_than_it_does_for_the_slow(in_process: bool) -> None:
    life = a_life(5, in_process=in_process, bad=EVERYWHERE - {"node-2"}, slow={3}, crash_seconds=5)
    life.live(HOUR)
    assert life.joined[2] <= WARM_SECONDS + PREPARE_SECONDS + 5


def test_a_joining_worker_that_gets_well_joins_and_the_pause_is_forgotten() -> None:
    life = a_life(3, bad={"node-2"}, crash_seconds=5)
    life.live(8)
    assert held_back(life.job.view(later(8)), life.job.status) == {2}
    life.bad = ()
    life.live(68)
    assert training(life.job.status) == (0, 1, 2)
    assert life.job.status.restarts == Restarts(blamed=("node-2",))


# one decision -----------------------------------------------------------------------------------


def preparing(workers: int = 3, **joining_worker: Any) -> JobBuilder:
    """Worker 2 gets warm in world 5, while 0 and 1 train in world 4."""
    job = a_job(workers).training(0, 1, world_number=4)
    job = job.with_worker(2, ready=True, in_process=False, **joining_worker)
    world: dict[str, Any] = {"is_active": False, "entry": Entry.BOUNDARY, "state_holders": "0-1"}
    return job.with_world("0-2", 5, training_number=4, joining_workers="2", **world)


def having_joined(entry: Entry = Entry.BOUNDARY, **joining_worker: Any) -> JobBuilder:
    """Worker 2 came with world 5, in which 0 and 1 train."""
    job = a_job(3).training(0, 1, world_number=5, in_process=entry is not Entry.RESTART)
    job = job.with_worker(2, **{"ready": True, "in_process": False, **joining_worker})
    return job.with_world("0-2", 5, entry=entry, state_holders="0-1", joining_workers="2")


FAILED = Failure(5, 3, BOOM)
HELD = JoiningWorkers(failures=1, retry_at=later(10), held=(HeldBack((2,), world=5),))


@pytest.mark.parametrize(
    "job",
    [
        preparing(failed=FAILED),
        having_joined(failed=FAILED),
        having_joined(Entry.RESTART, failed=FAILED),
    ],
    ids=["while it gets warm", "at its first step", "where all were started again"],
)
def test_its_failure_is_said_and_blames_its_node_and_counts_against_nothing(
    job: JobBuilder,
) -> None:
    decision = job.decide()
    status = decision.status
    assert status.restarts == Restarts(blamed=("node-2",), joining_workers=HELD)
    assert decision.wake_after_seconds <= 10
    said = next(one for one in status.decisions if one.what == "HoldBack")
    assert said.why == (
        f"worker 2 on node node-2 failed before it trained (ExitCode, exit code 3): {BOOM}"
    )
    assert said.numbers == {"failures": "1", "pauseSeconds": "10", "reason": "ExitCode"}
    again = job.with_status(restarts=status.restarts).decide(later(1)).status
    assert again.restarts == status.restarts, "it is counted once"


@pytest.mark.parametrize(
    ("entry", "expected"), [(Entry.BOUNDARY, Entry.ABORT), (Entry.RESTART, Entry.RESTART)]
)
def test_the_others_go_on_at_once_without_it(entry: Entry, expected: Entry) -> None:
    world = having_joined(entry, failed=FAILED).decide().status.world
    assert (world.number, world.members, world.is_active, world.entry) == (
        6,
        (0, 1),
        True,
        expected,
    )


def test_what_its_peers_report_follows_from_it() -> None:
    job = having_joined(Entry.RESTART, failed=FAILED)
    job = job.with_worker(0, ready=True, in_process=False, failed=Failure(5, 1, "reset by peer"))
    assert job.decide().status.restarts == Restarts(blamed=("node-2",), joining_workers=HELD)


def test_of_several_joining_workers_in_a_world_the_first_that_failed_is_the_cause() -> None:
    job = having_joined(Entry.RESTART, failed=FAILED, ready_for=0.1).with_spec(4)
    job = job.with_worker(3, ready=True, failed=Failure(5, 1, "boom"), ready_for=0.4)
    job = job.with_world("0-3", 5, state_holders="0-1", joining_workers="2-3")
    restarts = job.decide().status.restarts
    assert restarts.blamed == ("node-3",)


def test_the_others_failures_stay_failures() -> None:
    job = having_joined().with_worker(1, ready=True, arrived=5, failed=FAILED)
    restarts = job.decide().status.restarts
    assert (restarts.failures, restarts.joining_workers) == (1, None)


def test_who_has_made_steps_is_no_joining_worker_any_more() -> None:
    stepping = Progress(5, 7, step_seconds=1.0)
    job = having_joined(failed=FAILED, progress=stepping, arrived=5)
    restarts = job.decide().status.restarts
    assert (restarts.failures, restarts.joining_workers) == (1, None)


@pytest.mark.parametrize(("seconds", "expected"), [(600.0, {2}), (601.0, set())])
def test_of_a_script_that_tells_no_steps_ten_minutes_are_taken_for_training(
    seconds: float, expected: set[int]
) -> None:
    job = having_joined(Entry.RESTART).with_world("0-2", 5, joining_workers="2", formed=seconds)
    assert on_trial(job.view(), job.status) == expected


def test_without_whom_too_few_would_train_is_no_joining_worker() -> None:
    job = having_joined(Entry.RESTART, failed=FAILED).with_spec(3, min=3)
    restarts = job.decide().status.restarts
    assert (restarts.failures, restarts.joining_workers) == (1, None)


def test_a_fatal_exit_code_of_a_joining_worker_ends_nothing() -> None:
    job = preparing(failed=FAILED).with_spec(3, failures={"fatalExitCodes": [3], "maxRestarts": 0})
    counted = job.with_state(job.decide().status)
    assert counted.decide(later(6)).status.phase is Phase.RUNNING


def test_a_joining_worker_whose_pod_ends_is_made_anew_after_the_pause() -> None:
    job = (
        a_job(3)
        .training(0, 1)
        .with_worker(2, **an_end(exit_code=137, container_reason="OOMKilled"))
    )
    decision = job.decide()
    restarts = decision.status.restarts
    assert (restarts.failures, restarts.retry_at) == (0, later(10))
    assert restarts.joining_workers is not None
    assert decision.status.next_worker_id == 4
    assert [type(action).__name__ for action in decision.actions] == ["Release"]


def again() -> JobBuilder:
    """It has failed before, and on that node."""
    known = replace(HELD, retry_at=ago(30), held=(HeldBack((2,), world=4),), failures=4)
    return preparing(failed=FAILED).with_status(
        restarts=Restarts(blamed=("node-2",), joining_workers=known)
    )


def test_after_the_second_blame_it_is_replaced_though_a_world_was_prepared_for_it() -> None:
    job = again()
    first = job.decide().status
    assert first.restarts.joining_workers is not None
    assert (first.restarts.joining_workers.failures, first.restarts.joining_workers.retry_at) == (
        5,
        later(160),
    )
    decision = job.with_state(first).decide(later(1))
    assert [type(action).__name__ for action in decision.actions] == ["Remove", "Create"]
    assert decision.actions[0] == Remove(
        2, "uid-2", Reason.EXIT_CODE, "node node-2 is blamed for two failures"
    )
    assert decision.actions[1].avoid_nodes == ("node-2",)  # type: ignore[union-attr]
    assert counted_on(first) == {0, 1}


def test_with_a_wrong_device_the_first_blame_is_enough() -> None:
    job = preparing(failed=replace(FAILED, message=f"rank 2: {WRONG_DEVICE}: GPU-1 of node-2"))
    first = job.decide().status
    assert first.restarts.blamed == ("node-2", "node-2")
    removed = job.with_state(first).decide(later(1)).actions[0]
    assert removed == Remove(
        2, "uid-2", Reason.FAULTY_DEVICE, "its device on node node-2 is faulty"
    )


DELETING = {"deleting": True, "killed_at": later(20)}


@pytest.mark.parametrize("job", [preparing, having_joined], ids=["prepared", "joined"])
@pytest.mark.parametrize(
    ("spec", "status", "pod"),
    [
        ({"suspend": True}, {"suspended_by": ("User",)}, {}),
        ({}, {}, DELETING),
    ],
    ids=["the job is suspended", "its pod is deleted"],
)
def test_a_joining_worker_that_is_told_to_end_has_not_failed(
    job: Callable[..., JobBuilder],
    spec: dict[str, Any],
    status: dict[str, Any],
    pod: dict[str, Any],
) -> None:
    told_to_end = job(failed=FAILED, **pod).with_spec(3, **spec).with_status(**status)
    assert told_to_end.decide().status.restarts == NO_RESTARTS


def test_where_another_one_trains_on_its_node_it_is_tried_there_again() -> None:
    job = again().with_worker(1, ready=True, arrived=4, node="node-2")
    status = job.decide().status
    assert status.world.late_workers == ()


def test_who_fails_within_a_pause_makes_it_no_longer() -> None:
    job = preparing(4, failed=FAILED).with_worker(3, ready=True, failed=Failure(5, 1, "boom"))
    job = job.with_status(restarts=Restarts(joining_workers=HELD))
    restarts = job.decide(later(4)).status.restarts
    assert restarts.joining_workers is not None
    held = restarts.joining_workers
    assert (held.failures, held.retry_at) == (1, later(10))
    assert held.held == (HeldBack((2, 3), world=5),)
    assert restarts.blamed == ("node-3",)


def test_while_nobody_trains_there_are_no_joining_workers() -> None:
    job = a_job(2, min=2).with_worker(0, ready=True).with_worker(1, **an_end(exit_code=1))
    restarts = job.decide().status.restarts
    assert (restarts.failures, restarts.joining_workers) == (1, None)


def test_it_is_looked_at_again_when_the_pause_is_over() -> None:
    assert preparing(failed=FAILED, ready_for=6.0).decide().wake_after_seconds == 10


def test_what_it_says_after_a_failure_of_another_one_follows_from_that() -> None:
    pausing = Restarts(failures=1, retry_at=later(5), last_world=5)
    job = having_joined(Entry.RESTART, failed=FAILED).with_status(restarts=pausing)
    assert job.decide().status.restarts == pausing


@pytest.mark.parametrize(
    ("wanted", "members", "outside", "is_forgotten"),
    [
        (4, (0, 1, 2), (), True),
        (4, (0, 1, 3), (), True),
        (4, (0, 1, 3), (2,), False),
        (4, (0, 1), (), False),
        (2, (0, 1), (2,), True),
    ],
    ids=["it trains", "its replacement does", "only others do", "nobody does", "none is wanted"],
)
def test_when_the_pause_is_forgotten(
    wanted: int, members: tuple[int, ...], outside: tuple[int, ...], is_forgotten: bool
) -> None:
    over = replace(HELD, retry_at=ago(30))
    job = a_job(wanted).training(*members, world_number=6).with_workers(*outside, ready=False)
    restarts = job.with_status(restarts=Restarts(joining_workers=over)).decide().status.restarts
    assert restarts.joining_workers == (None if is_forgotten else over)
