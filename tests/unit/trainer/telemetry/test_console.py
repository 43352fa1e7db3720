import torch

from spotrun.wire import Metric
from spotrun_trainer.telemetry.console import ConsoleLog


def silent() -> ConsoleLog:
    return ConsoleLog(write=lambda _line: None)


def test_numbers_of_steps_that_are_over_are_reported_with_their_step() -> None:
    log = silent()
    log.note(1, {"loss": torch.tensor(2.5), "phase": "warm-up"})
    assert log.metrics() == ()  # the step may still compute
    log.note(2, {"loss": 2.0})
    assert log.metrics() == (Metric("loss", 2.5, 1),)


def test_a_value_that_is_logged_now_and_then_is_reported_once_another_step_is_done() -> None:
    log = silent()
    log.note(100, {"val": 0.5})
    log.steps_done = 100
    assert log.metrics() == ()
    log.steps_done = 101
    assert log.metrics() == (Metric("val", 0.5, 100),)


def test_values_of_a_step_that_was_dropped_are_not_reported() -> None:
    log = silent()
    log.note(100, {"val": 0.5})
    log.steps_done = 100
    log.note(101, {"val": 9.0})  # a worker is lost in this step
    log.note(51, {"val": 0.75})  # and training goes on from step 50
    log.steps_done = 52
    assert log.metrics() == (Metric("val", 0.75, 51),)


def test_the_last_values_are_reported_at_the_end() -> None:
    log = silent()
    log.note(100, {"val": 0.5})
    log.steps_done = 100
    log.flush(is_last=True)
    assert log.metrics() == (Metric("val", 0.5, 100),)
