"""When the training ends: known as soon as it can be, and told in words that stay."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from spotrun.api.field_types.text_values import Time
from spotrun.api.names import Phase
from spotrun.money.units import Usd
from spotrun.state.job_state import NO_WORLD
from spotrun.state.stored.cost import Accumulators
from spotrun.state.stored.training import Pace
from spotrun.wire import Progress
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, later

HOUR = 3600.0
DAY_PART = timedelta(hours=3)  # a tenth of what is left at first, and the step it is told in
WINDOWS = {"windows": [{"from": "20:00", "to": "06:00"}]}


def a_training(step: int = 100, total: int | None = 1000, **spec: Any) -> JobBuilder:
    """Two workers whose steps take ten seconds."""
    reported = Progress(1, step, total, step_seconds=10.0)
    return a_job(2, **spec).training(0, 1, progress=reported)


def bought(useful: str, lost: str) -> Accumulators:
    """What a hundred steps have cost, and what bought nothing."""
    return Accumulators(
        usd=Usd(6),
        useful_usd=Usd(Decimal(useful)),
        lost_work_usd=Usd(Decimal(lost)),
        first_step=0,
        peak_step=100,
    )


def eta(job: JobBuilder, seconds: float = 0.0) -> str | None:
    progress = job.decide(later(seconds)).status.progress
    return Time.of(progress.eta) if progress.eta is not None else None


def after(job: JobBuilder, seconds: float) -> JobBuilder:
    return replace(job, status=job.decide(later(seconds)).status)


def test_it_is_the_steps_that_are_left_at_the_pace_of_the_present_world() -> None:
    # 900 steps of 10 s are 2 h 30 min, told in steps of a minute.
    assert eta(a_training()) == "2026-03-02T14:30:00Z"


def test_a_pace_that_was_measured_with_fewer_workers_is_taken_to_grow_with_them() -> None:
    job = a_job(2).training(0, 1, progress=Progress(1, 100, 1000))
    job = job.with_status(pace=Pace(step_seconds=Decimal(20), workers=1))
    assert eta(job) == "2026-03-02T14:30:00Z"


def test_losses_are_taken_to_go_on_as_so_far() -> None:
    # A fifth of the money bought nothing: 2.5 h of steps take 3 h 7.5 min, told in 3 min or less.
    assert (
        eta(a_training().with_status(accumulators=bought("0.8", "0.2"))) == "2026-03-02T15:08:00Z"
    )


def test_a_loss_at_the_very_beginning_makes_it_no_more_than_twice_as_long() -> None:
    assert eta(a_training().with_status(accumulators=bought("0.01", "5"))) == "2026-03-02T17:00:00Z"


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_training(total=None), id="nobody says how many steps there are"),
        pytest.param(
            a_job(2).training(0, 1, progress=Progress(1, 100, 1000)), id="nor how long they take"
        ),
        pytest.param(a_training(suspend=True), id="its user suspends it"),
        pytest.param(a_training().with_status(world=NO_WORLD), id="nobody trains"),
        pytest.param(a_training().with_status(phase=Phase.SUCCEEDED), id="it is over"),
        pytest.param(a_training(total=2**53 - 1), id="too far ahead to be foreseen"),
    ],
)
def test_it_is_unknown_while(job: JobBuilder) -> None:
    assert eta(job) is None


def test_what_was_told_is_taken_back_when_nobody_trains_any_more() -> None:
    known = after(a_training(), 0)
    assert eta(known.with_spec(2, suspend=True), 60) is None


def test_it_stays_while_it_is_nearly_right_and_moves_with_the_pace() -> None:
    known = after(a_training(), 0)
    steady = replace(known, workers=a_training(step=136).workers)
    assert eta(steady, 0) == "2026-03-02T14:30:00Z", "6 min of 144 sooner is no news"
    assert eta(steady, 360) == "2026-03-02T14:30:00Z"
    slow = replace(known, workers=a_training(step=150).workers)
    assert eta(slow, HOUR) == "2026-03-02T14:56:00Z", "half of the way to 15:22"
    stuck = replace(known, workers=a_training(step=100).workers)
    assert eta(stuck, 4 * HOUR) == "2026-03-02T18:30:00Z", "wholly where it is another one"


def test_it_is_told_in_coarser_steps_the_further_it_is() -> None:
    assert eta(a_training(total=100_100)) == "2026-03-14T02:00:00Z"


def test_a_schedule_is_kept() -> None:
    # At noon it is closed: 2 h 30 min and a changeover of 10 min after 20:00.
    spec: dict[str, Any] = {"schedule": WINDOWS, "checkpoint": ON_CLAIM}
    closed = after(a_training(**spec).with_checkpoint(100), 0)
    assert closed.status.phase is Phase.SUSPENDED
    assert eta(closed) == "2026-03-02T22:40:00Z"
    # At 20:00 1800 steps of 10 s are left of 10 h a night: it goes on in nights.
    long = after(a_training(total=9100, **spec), 8 * HOUR)
    assert eta(long, 8 * HOUR) == "2026-03-05T01:00:00Z"


def test_outside_its_windows_only_what_is_saved_counts_as_done() -> None:
    spec: dict[str, Any] = {"schedule": WINDOWS, "checkpoint": ON_CLAIM}
    job = a_training(**spec).with_checkpoint(64)
    assert eta(after(job, 0)) == "2026-03-02T22:50:00Z"


def test_it_is_measured_also_where_there_is_neither_deadline_nor_pool() -> None:
    pace = a_training().decide(NOW).status.pace
    assert pace == Pace(step_seconds=Decimal("10.000000"), workers=2)


def test_a_day_of_steady_steps_moves_it_hardly_ever() -> None:
    """8,640 steps of 10 s that are told to take 9.2 or 10.8 by turns: a look every 5 min."""
    job, reported = a_training(step=1, total=8640), []
    for minute in range(0, 24 * 60, 5):
        seconds = 9.2 if minute % 10 else 10.8
        progress = Progress(1, 1 + 6 * minute, 8640, step_seconds=seconds)
        job = after(job.with_workers(0, 1, ready=True, arrived=1, progress=progress), 60 * minute)
        reported.append(job.status.progress.eta)
    assert len([1 for one, other in pairwise(reported) if one != other]) <= 20
    late = [one for one in reported if one is not None and abs(one - later(86_400)) > DAY_PART]
    assert late == []
