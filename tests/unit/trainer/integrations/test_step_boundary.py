import os
import signal
from collections.abc import Callable, Iterator

import pytest

from spotrun_trainer.hooks.notice import Notice
from spotrun_trainer.integrations.step_boundary import (
    MOST_STEPS,
    Order,
    StepBoundary,
    asked_by_notice,
    steps_between,
)
from tests.support.processes.trainer_world import run_world

IN_JOB = {"SPOTRUN_DIR": "/nowhere"}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Told:
    """A notice, if there is one."""

    def __init__(self) -> None:
        self.notice: Notice | None = None

    def __call__(self) -> Notice | None:
        return self.notice


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def boundary(told: Told) -> Iterator[StepBoundary]:
    clock = Clock()

    def step_of_a_second() -> float:
        clock.now += 1.0
        return clock.now

    boundary = StepBoundary(env=IN_JOB, clock=step_of_a_second, look_for_notice=told)
    boundary.open()
    yield boundary
    boundary.close()


@pytest.mark.parametrize(
    ("step_seconds", "before", "after"),
    [
        (0.0, 1, 2),  # nothing was measured: slowly
        (0.05, 1, 2),
        (0.05, 8, 10),
        (0.001, 64, MOST_STEPS),
        (0.3, 10, 1),
        (20.0, 64, 1),
    ],
)
def test_ranks_agree_about_twice_a_second(step_seconds: float, before: int, after: int) -> None:
    assert steps_between(step_seconds, before) == after


@pytest.mark.parametrize(
    ("seconds_left", "save_seconds", "order"),
    [
        (120.0, None, Order.SAVE),  # nobody knows how long a save takes
        (120.0, 2.0, Order.GO_ON),
        (120.0, 60.0, Order.SAVE),
        (19.0, 2.0, Order.SAVE),
        (0.0, 0.0, Order.SAVE),
    ],
)
def test_a_notice_asks_for_a_save_as_late_as_is_safe(
    seconds_left: float, save_seconds: float | None, order: Order
) -> None:
    assert asked_by_notice(seconds_left, save_seconds) is order


def test_a_signal_to_end_asks_for_a_save_and_for_the_end(boundary: StepBoundary) -> None:
    assert boundary.look() is Order.GO_ON
    os.kill(os.getpid(), signal.SIGTERM)
    assert boundary.look() is Order.SAVE_AND_END
    with pytest.raises(SystemExit) as ended:
        boundary.end(7)
    assert ended.value.code == 0


def test_a_notice_asks_once_until_another_comes(boundary: StepBoundary, told: Told) -> None:
    boundary.saved(1.0)
    told.notice = Notice(60.0, "node a")
    assert boundary.look() is Order.GO_ON
    told.notice = Notice(10.0, "node a")
    assert boundary.look() is Order.SAVE
    boundary.saved(1.0)
    assert boundary.look() is Order.GO_ON
    told.notice = None
    assert boundary.look() is Order.GO_ON
    told.notice = Notice(10.0, "node b")
    assert boundary.look() is Order.SAVE


def test_outside_of_a_job_a_signal_is_what_it_was(told: Told) -> None:
    before = signal.getsignal(signal.SIGTERM)
    boundary = StepBoundary(env={}, look_for_notice=told)
    boundary.open()
    told.notice = Notice(0.0, "node a")
    assert boundary.look() is Order.GO_ON
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_handler_before_comes_back(told: Told) -> None:
    before = signal.getsignal(signal.SIGTERM)
    boundary = StepBoundary(env=IN_JOB, look_for_notice=told)
    boundary.open()
    assert signal.getsignal(signal.SIGTERM) is not before
    boundary.close()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_training_that_raised_may_begin_again(told: Told) -> None:
    before = signal.getsignal(signal.SIGTERM)
    boundary = StepBoundary(env=IN_JOB, look_for_notice=told)
    boundary.open()
    boundary.open()
    boundary.close()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("seconds", [None, 1.0])
def test_a_save_that_was_left_out_is_asked_for_again(
    boundary: StepBoundary, told: Told, seconds: float | None
) -> None:
    told.notice = Notice(10.0, "node a")
    assert [boundary.look(), boundary.look()] == [Order.SAVE, Order.SAVE]
    boundary.saved(seconds)
    assert boundary.look() is Order.GO_ON


def test_a_save_of_the_loop_itself_is_none_for_a_notice(boundary: StepBoundary, told: Told) -> None:
    boundary.saved(1.0)
    told.notice = Notice(60.0, "node a")
    assert boundary.look() is Order.GO_ON
    boundary.saved(1.0)
    told.notice = Notice(10.0, "node a")
    assert boundary.look() is Order.SAVE


def test_all_ranks_save_after_the_same_step() -> None:
    ended = run_world(2, stop_after, {1: 7}, env=IN_JOB)
    assert [(one.value, one.error) for one in ended] == [([7], "")] * 2, ended[0].said


def stop_after(told_at: dict[int, int]) -> list[int]:
    """Return the steps after which a rank is to save, if some are told after steps of their own."""
    import torch.distributed as dist  # noqa: PLC0415 - in a process of its own

    dist.init_process_group("gloo")
    boundary = StepBoundary(clock=a_step_takes(1.0), look_for_notice=lambda: None)
    boundary.open()
    for step in range(1, 20):
        if told_at.get(dist.get_rank()) == step:
            os.kill(os.getpid(), signal.SIGTERM)
        if boundary.look() is Order.SAVE_AND_END:
            boundary.close()
            return [step]
    return []


def a_step_takes(seconds: float) -> Callable[[], float]:
    clock = Clock()

    def now() -> float:
        clock.now += seconds
        return clock.now

    return now


def test_another_training_after_one_that_raised_takes_its_place() -> None:
    before = signal.getsignal(signal.SIGTERM)
    raised, other = StepBoundary(env=IN_JOB), StepBoundary(env=IN_JOB)
    raised.open()
    os.kill(os.getpid(), signal.SIGTERM)
    other.open()
    assert other.look() is Order.SAVE_AND_END, "it was told to end before it began"
    raised.close()
    assert signal.getsignal(signal.SIGTERM) == other._told
    other.close()
    assert signal.getsignal(signal.SIGTERM) == before
