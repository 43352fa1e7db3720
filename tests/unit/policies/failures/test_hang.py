"""When a world counts as hung, and what is done about it."""

from dataclasses import replace

import pytest

from spotrun.api.names import Phase, Reason
from spotrun.api.status import Entry
from spotrun.policies.failures.hang import hang_wake_after_seconds, is_hung
from spotrun.state.snapshot import Node
from spotrun.state.stored.failures import Restarts
from spotrun.state.view import left_out
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job, ago, later
from tests.support.jobs.hung_worlds import standing

LIMIT = 600.0


def left(job: JobBuilder) -> float | None:
    return hang_wake_after_seconds(job.view(), job.status)


@pytest.mark.parametrize(
    ("stands", "step_seconds", "hang_after", "expected"),
    [
        ((500.0, 590.0), 1.0, "Auto", 100.0),
        ((600.0, 601.0), 1.0, "Auto", 0.0),
        ((900.0, 0.0), 1.0, "Auto", 600.0),
        ((900.0, 900.0), None, "Auto", -300.0),
        ((900.0, 900.0), 60.0, "Auto", 300.0),
        ((900.0, 900.0), 60.0, "30m", 900.0),
        ((900.0, 900.0), 60.0, "5s", -895.0),
    ],
)
def test_a_world_may_stand_for_so_long(
    stands: tuple[float, ...], step_seconds: float | None, hang_after: str, expected: float
) -> None:
    job = standing(*stands, step_seconds=step_seconds, failures={"hangAfter": hang_after})
    assert left(job) == expected
    assert is_hung(job.view(), job.status) is (expected <= 0)


@pytest.mark.parametrize(
    ("report", "step_seconds", "hang_after", "expected"),
    [
        ({"in_process": False, "saves_on_order": False}, 1.0, "Auto", 2_700.0),
        ({"in_process": False, "saves_on_order": False}, None, "Auto", 2_700.0),
        ({"in_process": False, "saves_on_order": False}, 300.0, "Auto", 5_100.0),
        ({"in_process": False, "saves_on_order": False}, 1.0, "20m", 300.0),
        ({"in_process": False, "saves_on_order": True}, 1.0, "Auto", -300.0),
        ({"in_process": False, "saves_on_order": None}, 1.0, "Auto", -300.0),
        ({"in_process": True, "saves_on_order": False}, 1.0, "Auto", -300.0),
    ],
)
def test_a_plain_script_may_do_something_else_than_steps_for_an_hour(
    report: dict[str, bool | None], step_seconds: float | None, hang_after: str, expected: float
) -> None:
    job = standing(
        900.0, 900.0, step_seconds=step_seconds, report=report, failures={"hangAfter": hang_after}
    )
    assert left(job) == expected


def test_the_usual_step_is_the_median_one() -> None:
    job = standing(0.0, 0.0, 0.0)
    for worker_id, seconds in enumerate((1.0, 40.0, 3_000.0)):
        progress = Progress(1, 100, step_seconds=seconds)
        job = job.with_worker(worker_id, ready=True, arrived=1, progress=progress, progress_for=0.0)
    assert left(job) == 800.0


@pytest.mark.parametrize(
    ("why", "job"),
    [
        ("a member has not arrived", standing(999.0, 999.0).with_worker(1, ready=True)),
        ("a member is gone", standing(999.0, 999.0).without(1)),
        (
            "an agent is silent, so what its process does is not known",
            standing(999.0, 999.0).with_worker(1, ready=True, arrived=1, heard=61.0),
        ),
        (
            "an agent has not come over to a new leader",
            standing(999.0, 999.0).with_worker(1),
        ),
        (
            "nobody has finished a step of this world",
            standing(999.0, 999.0).with_world("0-1", restore="step-100.g0"),
        ),
        ("the progress is that of another world", standing(999.0, 999.0).with_world("0-1", 2)),
        ("the job is suspended", standing(999.0, 999.0, suspend=True).with_status(
            suspended_by=("User",)
        )),
        ("nobody trains", a_job(2).with_workers(0, 1, ready=True)),
    ],
)  # fmt: skip
def test_a_hang_is_not_concluded_where(why: str, job: JobBuilder) -> None:
    assert left(job) is None, why


@pytest.mark.parametrize(("step", "expected"), [(100, None), (101, -399.0)])
def test_the_clock_starts_with_the_first_step_after_what_was_restored(
    step: int, expected: float | None
) -> None:
    progress = Progress(1, step)
    job = standing(999.0).with_world("0", restore="step-100.g0")
    job = job.with_worker(0, ready=True, arrived=1, progress=progress, progress_for=999.0)
    assert left(job) == expected


@pytest.mark.parametrize(("step", "expected"), [(150, None), (151, -399.0)])
def test_a_newer_step_of_the_local_tier_is_no_step_of_this_world(
    step: int, expected: float | None
) -> None:
    progress = Progress(1, step, restored="step-150.g0")
    job = standing(999.0).with_world("0", restore="step-100.g0")
    job = job.with_worker(0, ready=True, arrived=1, progress=progress, progress_for=999.0)
    assert left(job) == expected


@pytest.mark.parametrize(("step_seconds", "expected"), [(None, None), (1.0, -399.0)])
def test_while_the_next_world_is_prepared_the_last_one_can_hang(
    step_seconds: float | None, expected: float | None
) -> None:
    job = standing(999.0, step_seconds=step_seconds).with_worker(1, ready=False)
    job = job.with_world("0-1", 2, is_active=False, state_holders="0", training_number=1)
    assert left(job) == expected


def that_start_again(job: JobBuilder, **why: bool) -> JobBuilder:
    """The same with processes that do not outlive a break."""
    for worker_id, worker in job.workers.items():
        assert worker.agent is not None
        progress, stands = worker.agent.report.progress, worker.agent.progress_seconds
        reported = {"progress": progress, "progress_for": stands}
        job = job.with_worker(worker_id, ready=True, arrived=1, **reported, **why)
    return job


def test_all_break_off_at_once_so_that_who_hangs_is_found() -> None:
    status = standing(999.0, 999.0, 999.0).decide().status
    assert (status.restarts.failures, status.restarts.last_reason) == (1, Reason.HUNG)
    world = status.world
    assert (world.entry, world.members, world.state_holders) == (Entry.ABORT, (0, 1, 2), (0, 1, 2))
    decision = status.decisions[-1]
    assert decision.why == "no step was finished for long; workers that hang are left out"


def broken_off(*worker_ids: int, workers: int = 3, least: int = 1) -> JobBuilder:
    """A hung world that all were told to leave, 4 s ago; these have."""
    job = standing(*[999.0] * workers, min=least)
    job = job.with_state(job.decide().status)
    job = job.with_status(world=replace(job.status.world, formed_at=ago(4)))
    for worker_id in worker_ids:
        reported = {"progress": Progress(1, 100, step_seconds=0.5), "progress_for": 999.0}
        job = job.with_worker(worker_id, ready=True, arrived=2, arrived_for=3.1, **reported)
    return job


def test_who_hangs_is_left_out_and_the_others_keep_every_step() -> None:
    world = broken_off(0, 2).decide().status.world
    assert (world.entry, world.members, world.state_holders, world.late_workers) == (
        Entry.ABORT,
        (0, 2),
        (0, 2),
        (1,),
    )


def test_where_too_few_are_left_they_wait_with_the_state_for_who_hung() -> None:
    job = broken_off(0, 2, least=3)
    status = job.decide().status
    assert (status.world.members, status.world.state_holders, status.world.late_workers) == (
        (),
        (0, 2),
        (1,),
    )
    assert left_out(status) == {1}

    job = job.with_state(status).with_workers(0, 2, ready=True, arrived=2)
    stuck = job.with_worker(1, ready=True, arrived=1, ready_for=999.0)
    soon = stuck.decide(later(1))
    assert soon.status.world == status.world, "what it said before it was left out does not count"
    stuck = job.with_worker(1, ready=False, arrived=1)
    assert stuck.decide(later(60)).status.world == status.world
    again = job.with_worker(1, ready=True, arrived=1, in_process=False)
    world = again.decide(later(60)).status.world
    assert (world.entry, world.members, world.state_holders) == (Entry.ABORT, (0, 1, 2), (0, 2))


def test_where_nobody_breaks_off_all_start_again() -> None:
    job = broken_off()
    world = job.decide(later(60)).status.world
    assert (world.entry, world.members, world.late_workers) == (Entry.RESTART, (0, 1, 2), ())


def test_a_world_that_hangs_again_though_all_broke_off_starts_again() -> None:
    job = broken_off(0, 1, 2)
    for worker_id in range(3):
        reported = {"progress": Progress(2, 100, step_seconds=1.0), "progress_for": 999.0}
        job = job.with_worker(worker_id, ready=True, arrived=2, **reported)
    first = job.decide(later(999))
    assert first.status.restarts.failures == 2
    again = job.with_state(first.status).decide(later(1_100))
    assert (again.status.world.number, again.status.world.entry) == (3, Entry.RESTART)


def test_who_hangs_alone_starts_again() -> None:
    job = standing(999.0)
    job = job.with_state(job.decide().status)
    world = job.decide(later(10)).status.world
    assert (world.number, world.entry) == (2, Entry.RESTART)


@pytest.mark.parametrize("why", [{"in_process": False}, {"needs_boundary": True}])
def test_a_hang_is_a_failure_and_all_start_again_after_the_pause(why: dict[str, bool]) -> None:
    """A plain script's, and those that speak by NCCL."""
    job = that_start_again(standing(999.0, 999.0), **why)
    decision = job.decide()
    restarts, world = decision.status.restarts, decision.status.world
    assert (restarts.failures, restarts.last_reason) == (1, Reason.HUNG)
    assert restarts.retry_at == later(10)
    assert not restarts.blamed
    assert world.number == 1

    after = job.with_state(decision.status).decide(later(10))

    assert after.status.restarts == restarts, "it is counted once"
    world = after.status.world
    assert (world.number, world.entry, world.members) == (2, Entry.RESTART, (0, 1))


def test_a_hang_that_followed_from_a_lost_node_leaves_other_nodes_their_blame() -> None:
    """It blamed none itself; the last one blamed is that of an earlier failure."""
    job = that_start_again(standing(999.0, 999.0), in_process=False)
    job = job.with_status(restarts=Restarts(failures=1, last_world=0, blamed=("node-9",)))
    job = job.with_state(job.decide().status)
    restarts = job.with_worker(1, node=Node("n", gone=True)).decide(later(4)).status.restarts
    assert (restarts.failures, restarts.last_reason) == (1, Reason.NODE_LOST)
    assert restarts.blamed == ("node-9",)


def test_a_step_finished_in_the_pause_ends_the_hang() -> None:
    job = that_start_again(standing(999.0, 999.0), in_process=False)
    stored = job.decide().status
    moved = that_start_again(standing(1.0, 1.0), in_process=False).with_state(stored)
    world = moved.decide(later(10)).status.world
    assert world.number == 1


def test_it_is_looked_again_when_the_time_is_over() -> None:
    assert standing(590.0, 595.0).decide().wake_after_seconds == 10.0


def test_one_hang_too_many_ends_the_job() -> None:
    before = Restarts(failures=4, counted_since=ago(5), last_reason="Hung")
    job = standing(0.0).with_status(restarts=before)
    status = job.decide().status
    assert (status.phase, status.reason) == (Phase.FAILED, Reason.TOO_MANY_RESTARTS)
    assert "Hung" in (status.message or "")
