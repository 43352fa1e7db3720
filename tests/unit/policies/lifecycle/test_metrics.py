import math

import pytest

from spotrun.api.names import Phase
from spotrun.state.job_state import JobState
from spotrun.wire import MOST_METRICS, Metric, Progress
from tests.support.jobs.builders import a_job

LOSS = Metric("loss", 0.5, 100)


def decided(*known: Metric, step: int = 100, reported: tuple[Metric, ...]) -> JobState:
    job = a_job(1).training(0, progress=Progress(1, step, metrics=reported))
    return job.with_status(metrics=known).decide().status


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (Metric("loss", 0.4, 200), Metric("loss", 0.4, 200)),
        (Metric("loss", 0.9, 100), LOSS),  # the step is done again after a loss of workers
        (Metric("loss", 0.9, 50), LOSS),
        (Metric("loss", 0.4), Metric("loss", 0.4, 300)),  # an older agent gives no step
        (Metric("loss", math.nan, 200), Metric("loss", math.nan, 200)),
        (Metric("loss", -math.inf, 200), Metric("loss", -math.inf, 200)),
    ],
)
def test_a_step_counts_once(reported: Metric, expected: Metric) -> None:
    assert decided(LOSS, step=300, reported=(reported,)).metrics == (expected,)


def test_other_metrics_stay_as_they_were() -> None:
    accuracy = Metric("accuracy", 0.7, 90)
    found = decided(accuracy, LOSS, reported=(Metric("loss", 0.4, 110),)).metrics
    assert found == (accuracy, Metric("loss", 0.4, 110))


def test_values_are_those_of_the_first_rank_that_reports_any() -> None:
    one, other = (Progress(1, 7, metrics=(Metric("loss", v, 7),)) for v in (0.25, 0.75))
    job = a_job(3).training(2, 0, 1).with_worker(0, ready=True, progress=one)
    job = job.with_worker(1, ready=True, progress=other)
    assert job.decide().status.metrics == (Metric("loss", 0.25, 7),)


def test_the_newest_are_kept_where_a_script_changes_its_names() -> None:
    old = tuple(Metric(f"old-{n:02}", 1.0, n) for n in range(MOST_METRICS))
    new = tuple(Metric(f"new-{n:02}", 1.0, 100) for n in range(3))
    names = [one.name for one in decided(*old, reported=new).metrics]
    assert names == [one.name for one in (*new, *old[3:])]


def test_what_strangers_to_the_world_report_counts_not() -> None:
    progress = Progress(1, 7, metrics=(LOSS,))
    job = a_job(1, max=2).training(0).with_worker(1, ready=True, progress=progress)
    assert job.decide().status.metrics == ()


def test_the_last_values_are_taken_with_the_end_of_the_training() -> None:
    last = Progress(1, 300, 300, metrics=(Metric("loss", 0.1, 300),))
    job = a_job(1).training(0, progress=last, completed=True).with_status(metrics=(LOSS,))
    assert job.decide().status.metrics == (Metric("loss", 0.1, 300),)


def test_whoever_says_first_that_the_training_is_complete_has_its_last_values() -> None:
    before = Progress(1, 290, 300, metrics=(Metric("loss", 0.2, 290),))
    last = Progress(1, 300, 300, metrics=(Metric("loss", 0.1, 300),))
    job = a_job(2).training(0, 1, progress=before)
    job = job.with_worker(1, ready=True, arrived=1, progress=last, completed=True)
    status = job.decide().status
    assert (status.phase, status.metrics) == (Phase.SUCCEEDED, (Metric("loss", 0.1, 300),))
