"""How long a process takes for a sample, and how the others get to know."""

from collections.abc import Callable

import pytest

from spotrun_trainer.telemetry.speeds import (
    LEAST_STEPS,
    WINDOW_STEPS,
    DeviceStopwatch,
    HostStopwatch,
    Speeds,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


Steps = Callable[..., None]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[list[float]]:
    return []


@pytest.fixture
def speeds(clock: Clock, told: list[list[float]]) -> Speeds:
    speeds = Speeds(lambda of_all: told.append(list(of_all)), stopwatch=HostStopwatch(clock))
    speeds.enter(1, 3)
    return speeds


def step(speeds: Speeds, clock: Clock, *loops: float, samples: int = 10) -> None:
    """A step with these loops over microbatches, each in seconds."""
    for number, seconds in enumerate(loops):
        speeds.start(begins_step=number == 0)
        clock.now += seconds
        speeds.stop(samples)
    clock.now += 100.0  # the update, and waits for others, count for nobody


def test_the_first_step_is_left_out_and_some_more_are_needed(speeds: Speeds, clock: Clock) -> None:
    step(speeds, clock, 50.0)
    for _ in range(LEAST_STEPS):
        assert speeds.own() == [0.0, 0.0, 0.0]
        step(speeds, clock, 2.0)
    speeds.start(begins_step=True)
    assert speeds.own() == [0.0, pytest.approx(0.2), 0.0]


def test_slow_steps_now_and_then_do_not_count(speeds: Speeds, clock: Clock) -> None:
    for seconds in (9.0, 2.0, 30.0, 2.0, 2.0, 40.0, 2.0):
        step(speeds, clock, seconds)
    assert speeds.seconds == pytest.approx(0.2)


def test_a_process_that_gets_slower_is_so_after_half_a_window(speeds: Speeds, clock: Clock) -> None:
    for seconds in [1.0] * 20 + [3.0] * (WINDOW_STEPS // 2 + 2):
        step(speeds, clock, seconds)
    assert speeds.seconds == pytest.approx(0.3)


def test_phases_of_a_step_add_up(speeds: Speeds, clock: Clock) -> None:
    for _ in range(6):
        step(speeds, clock, 1.0, 3.0)
    assert speeds.seconds == pytest.approx(0.4)


def test_the_measure_is_kept_in_another_world_but_not_its_first_step(
    speeds: Speeds, clock: Clock
) -> None:
    for _ in range(6):
        step(speeds, clock, 1.0)
    speeds.start(begins_step=True)  # of a step that breaks
    speeds.enter(0, 2)
    assert speeds.own() == [pytest.approx(0.1), 0.0]
    for _ in range(LEAST_STEPS):
        step(speeds, clock, *[])  # without microbatches
    step(speeds, clock, 70.0)
    for _ in range(WINDOW_STEPS // 2):
        step(speeds, clock, 1.0)
    assert max(speeds._steps) == pytest.approx(0.1)


def test_all_get_the_sum_unless_there_is_nobody_or_nobody_asks(
    speeds: Speeds, told: list[list[float]]
) -> None:
    speeds.told([1.0, 2.0, 3.0])
    speeds.told([])
    assert told == [[1.0, 2.0, 3.0]]
    speeds.enter(0, 1)
    assert speeds.own() == []
    off = Speeds()
    off.enter(0, 3)
    assert off.own() == []


class Event:
    """An event that has passed at a time, once the device is there."""

    def __init__(self, at: float, device: Clock) -> None:
        self.at = at
        self._device = device

    def query(self) -> bool:
        return self._device.now >= self.at

    def elapsed_time(self, later: "Event") -> float:
        return (later.at - self.at) * 1_000


def test_a_device_is_measured_by_its_events(clock: Clock) -> None:
    device = Clock()
    speeds = Speeds(
        lambda _of_all: None, stopwatch=DeviceStopwatch(lambda: Event(clock.now, device))
    )
    speeds.enter(0, 2)
    for _ in range(2 + LEAST_STEPS):
        step(speeds, clock, 2.0)
        device.now = clock.now
    assert speeds.own() == [pytest.approx(0.2), 0.0]


def test_what_a_device_has_not_computed_yet_is_left_out(clock: Clock) -> None:
    device = Clock()
    speeds = Speeds(
        lambda _of_all: None, stopwatch=DeviceStopwatch(lambda: Event(clock.now, device))
    )
    speeds.enter(0, 2)
    for _ in range(10):
        step(speeds, clock, 2.0)
    assert speeds.own() == [0.0, 0.0]
