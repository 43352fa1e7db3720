"""Reports become windows, and windows medians."""

import pytest

from spotrun.observe.telemetry.agents import Agents
from spotrun.observe.telemetry.step_windows import IGNORED_STEPS, WINDOW_STEPS, Windows
from spotrun.state.snapshot import ENOUGH_WINDOWS
from spotrun.wire import Progress, Report, Utilization

FIRST = IGNORED_STEPS + WINDOW_STEPS


def progress(step: int, seconds: float = 1.0, world_number: int = 1) -> Progress:
    return Progress(
        world_number, step, samples=8 * step, step_seconds=seconds, compute=0.75, data=0.25
    )


def taken(*reports: Progress) -> Windows:
    windows = Windows()
    for one in reports:
        windows.take(one, Utilization(cpu=0.5))
    return windows


def test_the_first_steps_of_a_world_are_in_no_window() -> None:
    assert taken(progress(100), progress(100 + FIRST - 1)).reading().windows == 0
    assert taken(progress(100), progress(100 + FIRST)).reading().windows == 1


def test_windows_do_not_overlap() -> None:
    every_step = [progress(step) for step in range(FIRST + 2 * WINDOW_STEPS + 1)]
    assert taken(*every_step).reading().windows == 3


def test_medians_leave_outliers_out() -> None:
    steps = [progress(0), *(progress(FIRST + 20 * n) for n in range(4)), progress(FIRST + 80, 99.0)]
    found = taken(*steps).reading()
    assert (found.windows, found.step_seconds, found.samples_per_step) == (5, 1.0, 8.0)
    assert (found.compute, found.data, found.communicate) == (0.75, 0.25, None)
    assert found.utilization == Utilization(cpu=0.5)


def test_only_the_last_windows_count() -> None:
    old = [progress(FIRST + 20 * n, 9.0) for n in range(10)]
    new = [progress(FIRST + 200 + 20 * n, 1.0) for n in range(3)]
    assert taken(progress(0), *old, *new).reading().step_seconds == 1.0


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(progress(500, world_number=2), id="another world"),
        pytest.param(progress(50), id="back at a checkpoint"),
    ],
)
def test_a_change_begins_anew(again: Progress) -> None:
    known = [progress(100), *(progress(100 + FIRST + 20 * n) for n in range(3))]
    assert taken(*known).reading().windows == 3
    after = taken(*known, again).reading()
    assert (after.world_number, after.windows, after.step_seconds) == (again.world_number, 0, None)
    assert after.ever_enough
    assert not taken(*known[:-1], again).reading().ever_enough


def test_who_reports_rarely_fills_a_window_with_each_report() -> None:
    assert taken(progress(0), *(progress(1000 * n) for n in range(1, 4))).reading().windows == 3


def test_a_job_is_looked_at_once_as_soon_as_its_world_is_measured() -> None:
    agents = Agents(lambda: 0.0)
    news = [
        agents.take_report("job", 0, Report(progress=progress(FIRST * n, seconds=1.0)))
        for n in range(ENOUGH_WINDOWS + 4)
    ]
    assert news == [True, True, False, True, False, False, False], "the second tells first steps"
    known = agents.facts("job", 0)
    assert known is not None
    assert known.reading is not None
    assert known.reading.is_enough


def test_a_worker_that_does_not_train_has_no_reading() -> None:
    agents = Agents(lambda: 0.0)
    agents.take_report("job", 0, Report(ready=True))
    known = agents.facts("job", 0)
    assert known is not None
    assert known.reading is None
