"""When a world counts as hung, and what is done about it."""

from typing import Any

import pytest

from spotrun.api.names import Phase, Reason
from spotrun.api.status import How, Restarts
from spotrun.api.values import Time
from spotrun.decide.hang import hang_again_seconds, is_hung
from spotrun.wire import Progress
from tests.decide_builders import JobBuilder, a_job, ago, later

LIMIT = 600.0


def standing(*seconds: float | None, step_seconds: float | None = 1.0, **spec: Any) -> JobBuilder:
    """A world in which each worker has said nothing new of its progress for so long."""
    job = a_job(len(seconds), **spec).training(*range(len(seconds)))
    progress = Progress(1, 100, step_seconds=step_seconds)
    for serial, stands in enumerate(seconds):
        changes = {"progress": progress, "progress_for": stands}
        job = job.with_worker(serial, ready=True, arrived=1, **changes)
    return job


def left(job: JobBuilder) -> float | None:
    return hang_again_seconds(job.view(), job.status)


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


def test_the_usual_step_is_the_median_one() -> None:
    job = standing(0.0, 0.0, 0.0)
    for serial, seconds in enumerate((1.0, 40.0, 3_000.0)):
        progress = Progress(1, 100, step_seconds=seconds)
        job = job.with_worker(serial, ready=True, arrived=1, progress=progress, progress_for=0.0)
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


@pytest.mark.parametrize(("step_seconds", "expected"), [(None, None), (1.0, -399.0)])
def test_while_the_next_world_is_prepared_the_last_one_can_hang(
    step_seconds: float | None, expected: float | None
) -> None:
    job = standing(999.0, step_seconds=step_seconds).with_worker(1, ready=False)
    job = job.with_world("0-1", 2, switch=False, trained="0", trains=1)
    assert left(job) == expected


def test_a_hang_is_a_failure_and_all_start_again_after_the_pause() -> None:
    job = standing(999.0, 999.0)
    decision = job.decide()
    restarts, world = decision.status.restarts, decision.status.world
    assert restarts is not None
    assert (restarts.failures, restarts.last_reason) == (1, Reason.HUNG)
    assert restarts.retry_at == Time.of(later(10))
    assert restarts.blamed is None
    assert world is not None
    assert world.generation == 1

    after = job.with_status(**vars(decision.status)).decide(later(10))

    assert after.status.restarts == restarts, "it is counted once"
    world = after.status.world
    assert world is not None
    assert (world.generation, world.how, world.members) == (2, How.RESTART, "0-1")


def test_a_step_finished_in_the_pause_ends_the_hang() -> None:
    job = standing(999.0, 999.0)
    stored = job.decide().status
    moved = standing(1.0, 1.0).with_status(**vars(stored))
    world = moved.decide(later(10)).status.world
    assert world is not None
    assert world.generation == 1


def test_it_is_looked_again_when_the_time_is_over() -> None:
    assert standing(590.0, 595.0).decide().again_seconds == 10.0


def test_one_hang_too_many_ends_the_job() -> None:
    before = Restarts(failures=4, counted_since=Time.of(ago(5)), last_reason="Hung")
    job = standing(0.0).with_status(restarts=before)
    status = job.decide().status
    assert (status.phase, status.reason) == (Phase.FAILED, Reason.TOO_MANY_RESTARTS)
    assert "Hung" in (status.message or "")
