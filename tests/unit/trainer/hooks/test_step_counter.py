import gc

import pytest

from spotrun_trainer.hooks.step_counter import StepCounter

SECOND = 1_000_000_000


class Optimizer:
    """Something that steps, and that can be dropped."""


def counted(names: str) -> int:
    """The steps that are counted where optimizers of these names step in turn."""
    counter, optimizers = StepCounter(), {name: Optimizer() for name in names}
    for name in names:
        counter.optimizer_stepped(optimizers[name], 0)
    return counter.step


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        ("aaaa", 4),
        ("abababab", 4),
        ("abcabc", 2),
        ("cccgcccg", 6),  # a critic that steps three times for each step of the generator
        ("gcccgccc", 6),
        ("aaabbb", 5),  # another optimizer for another phase: one step is told of both
    ],
)
def test_the_optimizer_that_steps_most_often_counts(names: str, steps: int) -> None:
    assert counted(names) == steps


def test_a_dropped_optimizer_belongs_to_no_step() -> None:
    counter = StepCounter()
    for _ in range(5):
        optimizer = Optimizer()
        counter.optimizer_stepped(optimizer, 0)
        del optimizer
        gc.collect()
    assert counter.step == 5


def test_a_step_is_as_long_as_the_median_of_the_last_ones() -> None:
    counter, optimizer = StepCounter(), Optimizer()
    assert counter.step_seconds() is None
    for now in (100, 101, 102, 103, 200):  # the last one with an evaluation before it
        counter.optimizer_stepped(optimizer, now * SECOND)
    assert counter.step_seconds() == 1.0


def test_a_script_may_say_where_it_goes_on() -> None:
    counter, optimizer = StepCounter(), Optimizer()
    assert not counter.is_at(500, 0)
    assert (counter.step, counter.counted) == (500, 0)
    for now in range(3):
        counter.optimizer_stepped(optimizer, now * SECOND)
    assert counter.step == 503
    assert counter.step_seconds() == 1.0  # building the model before the first one is no step


def test_a_script_that_says_its_step_each_time_is_believed() -> None:
    counter, optimizer = StepCounter(), Optimizer()
    for step in range(4):
        counter.optimizer_stepped(optimizer, step * SECOND)
        counter.is_at(1000 + step, step * SECOND)
    assert counter.step == 1003


def test_without_optimizers_of_torch_the_scripts_word_is_counted() -> None:
    counter = StepCounter()
    told = [counter.is_at(step, step * SECOND) for step in (100, 110, 110, 120)]
    assert told == [False, True, False, True]
    assert counter.step == 120
    assert counter.step_seconds() == 1.0
