"""The rule of pacing, on numbers alone; the market replay shows what it is worth."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.deadline.pacing import (
    MARGIN_SECONDS,
    Course,
    behind_in_seconds,
    expected_seconds,
    is_behind,
    is_reachable,
    missed_by_seconds,
    needed_share,
    paid_off_seconds,
    saved,
    spare_seconds,
)

HOUR = 3600.0


def a_course(
    work: float = 48, done: float = 0, allowed: float = 60, used: float = 0, **facts: float
) -> Course:
    """In hours; a changeover takes 10 minutes."""
    return Course(work * HOUR, done * HOUR, allowed * HOUR, used * HOUR, 600.0, 600.0, **facts)


courses = st.builds(
    a_course,
    work=st.floats(1, 500),
    done=st.floats(0, 500),
    allowed=st.floats(1, 1000),
    used=st.floats(0, 1000),
)


@pytest.mark.parametrize(
    ("allowed", "used", "expected"),
    [
        (60, 0, 0),
        (60, 30, 48 * 0.5**1.125),  # g = 1 + 0.5 (60/48 - 1)
        (96, 48, 48 * 0.5**1.5),  # the more slack, the later it is made up for
        (60, 60, 48),
        (60, 70, 48),
        (40, 20, 24),  # with less time than work a steady pace is asked for
    ],
)
def test_the_target_uses_slack_late(allowed: float, used: float, expected: float) -> None:
    assert expected_seconds(a_course(allowed=allowed, used=used)) == pytest.approx(expected * HOUR)


@pytest.mark.parametrize(("done", "expected"), [(21.94, True), (21.97, False), (22.0, False)])
def test_a_lag_that_is_not_worth_a_changeover_is_not_caught_up_for(
    done: float, expected: bool
) -> None:
    # By now 22.01 h should be done; with a quarter of slack a quarter of 10 minutes may lack.
    assert is_behind(a_course(done=done, used=30)) is expected


@given(courses)
def test_a_job_is_behind_from_the_moment_on_that_was_foretold(course: Course) -> None:
    wait = behind_in_seconds(course)
    if not is_behind(course) and course.done_seconds < course.work_seconds:
        later = replace(course, used_seconds=course.used_seconds + wait + 1.0)
        assert wait >= -1e-6
        assert is_behind(later)
        before = replace(course, used_seconds=course.used_seconds + 0.99 * wait)
        assert not is_behind(before)
    elif is_behind(course):
        assert wait == 0.0


@pytest.mark.parametrize(
    ("left_minutes", "waits", "trains"),
    [
        (48 * 60 + 22, True, True),  # 21 minutes: two changeovers and the margin
        (48 * 60 + 20, False, True),
        (48 * 60 + 10, False, False),
    ],
)
def test_who_waits_needs_time_for_two_changeovers_and_who_trains_for_one(
    left_minutes: float, waits: bool, trains: bool
) -> None:
    course = a_course(allowed=left_minutes / 60)
    assert (spare_seconds(course, 2) > 0, spare_seconds(course, 1) > 0) == (waits, trains)


def test_the_margin_is_on_top() -> None:
    course = a_course(allowed=48 + 1 / 6)
    assert spare_seconds(course, 1) == pytest.approx(-MARGIN_SECONDS)


def test_an_on_demand_worker_pays_off_sooner_the_less_slack_is_used_up() -> None:
    # Half of d left / (left - rem)
    assert paid_off_seconds(a_course()) == pytest.approx(300 * 60 / 12)
    assert paid_off_seconds(a_course(done=24, used=24)) == pytest.approx(300 * 36 / 12)
    assert paid_off_seconds(a_course(allowed=48)) == float("inf")


def test_a_deadline_is_out_of_reach_when_full_speed_from_now_on_would_miss_it() -> None:
    assert is_reachable(a_course(allowed=48))
    late = a_course(allowed=48, ahead_seconds=600.0)
    assert (is_reachable(late), missed_by_seconds(late)) == (False, 600.0)


def test_work_that_is_saved_counts_as_done() -> None:
    course = a_course(done=10, unsaved_seconds=1800.0)
    assert saved(course) == a_course(done=10.5)


@given(courses)
def test_the_needed_share_is_a_share(course: Course) -> None:
    assert 0 <= needed_share(course) <= 1
