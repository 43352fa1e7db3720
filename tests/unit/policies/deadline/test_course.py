"""Where a job is on its way to the deadline, by what it has measured of itself."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.deadline.course import (
    PRIOR_CHANGEOVER_SECONDS,
    changeovers,
    course,
    full_step_seconds,
    total_steps,
    usable_seconds,
)
from spotrun.policies.deadline.pacing import Course
from spotrun.state.stored.training import NO_PACE, NO_PROGRESS, Pace, Progress
from tests.support.jobs.builders import JobBuilder, a_job, ago, later

PACE = Pace(step_seconds=Decimal(10), workers=2, changeovers=(100,), measured=1)
HOURS = 3600.0


def a_training(**status: Any) -> JobBuilder:
    """Two workers that were made an hour ago, and have four hours in all."""
    job = a_job(2, deadline={"finishWithin": "4h"}).training(0, 1)
    known = {"pace": PACE, "progress": Progress(step=300, total_steps=1000), **status}
    return job.with_checkpoint(200).with_status(**known)


def found(job: JobBuilder) -> Course | None:
    return course(job.view(), job.status)


def test_it_is_durable_steps_and_the_time_in_which_the_job_may_run() -> None:
    assert found(a_training()) == Course(
        work_seconds=10_000.0,
        done_seconds=2_000.0,
        allowed_seconds=4 * HOURS,
        used_seconds=HOURS,
        changeover_seconds=100.0,
        longest_changeover_seconds=100.0,
        ahead_seconds=0.0,
        unsaved_seconds=1_000.0,
    )


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_job(2).training(0, 1).with_status(pace=PACE), id="there is no deadline"),
        pytest.param(a_training(progress=NO_PROGRESS), id="nobody says how many steps there are"),
        pytest.param(a_training(progress=Progress(step=3)), id="nor for a while"),
        pytest.param(a_training(pace=NO_PACE), id="no step was measured"),
        pytest.param(a_training(pace=Pace(changeovers=(9,))), id="only changeovers were"),
    ],
)
def test_it_is_unknown_while_a_part_of_it_is(job: JobBuilder) -> None:
    assert found(job) is None


def test_steps_that_nobody_holds_any_more_are_not_said_to_be_unsaved() -> None:
    lost = a_training().without(0).without(1)
    now = found(lost)
    assert now is not None
    assert (now.done_seconds, now.unsaved_seconds, now.ahead_seconds) == (2_000.0, 0.0, 100.0)


@pytest.mark.parametrize(
    ("workers", "seconds"),
    [(None, 10.0), (1, 5.0), (2, 10.0), (4, 20.0)],
)
def test_a_step_that_was_measured_at_another_size_scales_with_it(
    workers: int | None, seconds: float
) -> None:
    job = a_training(pace=replace(PACE, workers=workers))
    assert full_step_seconds(job.view(), job.status) == seconds


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param((), (PRIOR_CHANGEOVER_SECONDS,) * 2, id="none yet"),
        pytest.param((200,), (200.0, 200.0), id="one"),
        pytest.param((100, 200), (130.0, 200.0), id="the newest counts for less than a third"),
        pytest.param((900, *[100] * 9), (100 + 800 * 0.7**9, 132.28), id="one of ten is left out"),
    ],
)
def test_changeovers_as_a_rule_and_at_most_in_nine_of_ten(
    own: tuple[int, ...], expected: tuple[float, float]
) -> None:
    assert changeovers(Pace(changeovers=own)) == pytest.approx(expected, abs=0.01)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=10))
def test_a_changeover_is_usually_no_longer_than_at_most(own: list[int]) -> None:
    usual, longest = changeovers(Pace(changeovers=tuple(own)))
    assert min(own) <= usual <= longest <= max(own) + 1e-6


def test_time_that_is_over_is_none_and_without_a_schedule_all_of_it_counts() -> None:
    assert usable_seconds(None, ago(60), later(60)) == 120.0
    assert usable_seconds(None, later(60), ago(60)) == 0.0


def test_how_many_steps_there_are_is_what_the_trainer_says() -> None:
    assert total_steps(a_training().status) == 1000
    assert total_steps(a_job(1).status) is None
    assert total_steps(replace(a_training().status, progress=Progress(step=1))) is None
