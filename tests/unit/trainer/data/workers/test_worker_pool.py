"""What loader workers load, and what comes out when that fails."""

import multiprocessing
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from spotrun_trainer.data.order.sharding import Block
from tests.unit.trainer.data.datasets import Failing, Logged, Numbers
from tests.unit.trainer.data.helpers import Opened, take, until, workers

torch.set_num_threads(1)

FORK = multiprocessing.get_context("fork")


def test_what_is_still_ours_after_a_change_is_not_loaded_again(
    opened: Opened, tmp_path: Path
) -> None:
    dataset = Logged(100, tmp_path / "log")
    source = opened(dataset, num_workers=2)
    before = source.microbatches(Block(0, microbatches=4, microbatch=2))
    next(before)
    until(lambda: dataset.used() == [*range(8)], "all of the block was loaded ahead")
    next(before)

    assert take(source, 4, microbatches=3) == [4, 5, 6, 7, 8, 9]

    source.close()
    assert [*range(10)] == dataset.used()


def test_what_is_no_longer_ours_is_not_begun(opened: Opened, tmp_path: Path) -> None:
    gate = FORK.Event()
    dataset = Logged(100, tmp_path / "log", gate)
    source = opened(dataset)
    source.expect(Block(0, microbatches=2, microbatch=2))
    until(dataset.used, "the first microbatch was begun")
    source.expect(Block(50, microbatches=2, microbatch=2))
    gate.set()

    assert take(source, 50, microbatches=2) == [50, 51, 52, 53]

    source.close()
    assert dataset.used() == [0, 1, 50, 51, 52, 53]


def test_what_was_dropped_can_be_wanted_again(opened: Opened, tmp_path: Path) -> None:
    gate = FORK.Event()
    source = opened(Logged(100, tmp_path / "log", gate))
    for start in (0, 50, 0, 50, 0):
        source.expect(Block(start, microbatches=2, microbatch=2))
    gate.set()

    assert take(source, 0, microbatches=2) == [0, 1, 2, 3]
    assert take(source, 50) == [50, 51]
    source.close()


def test_two_microbatches_of_each_worker_are_loaded_ahead_and_no_more(
    opened: Opened, tmp_path: Path
) -> None:
    dataset = Logged(1000, tmp_path / "log")
    source = opened(dataset, num_workers=2)
    take_one = source.microbatches(Block(0, microbatches=3, microbatch=2, stride=20))
    next(take_one)
    expected = [0, 1, 2, 3, 4, 5, 20, 21, 22, 23]
    until(lambda: dataset.used() == expected, "one taken, four ahead, into the next step")

    # The workers have answered, so they would have begun with more if they had been asked for it.
    next(take_one)
    source.close()
    assert len(dataset.used()) <= len(expected) + 2


def look_up() -> int:
    found: dict[str, int] = {}
    return found["missing"]


def test_a_dataset_that_raises_is_named_once_with_the_worker_s_traceback(opened: Opened) -> None:
    source = opened(Failing(100, 5, does=look_up))

    assert take(source, 0, microbatches=2) == [0, 1, 2, 3]
    with pytest.raises(KeyError, match="missing") as raised:
        take(source, 4)

    (note,) = raised.value.__notes__
    assert "dataset[5] raised this in epoch 0." in note
    assert "in look_up" in note
    assert workers() == []
    with pytest.raises(RuntimeError, match="closed"):
        take(source, 0)


def test_without_workers_a_dataset_that_raises_is_named_as_well(opened: Opened) -> None:
    source = opened(Failing(100, 5, does=look_up), num_workers=0)

    with pytest.raises(KeyError, match="missing") as raised:
        take(source, 4)

    assert raised.value.__notes__ == ["dataset[5] raised this in epoch 0."]


def test_a_failure_ahead_is_nobody_s_if_it_is_never_asked_for(
    opened: Opened, tmp_path: Path
) -> None:
    source = opened(Failing(100, 5, does=look_up), num_workers=2)
    source.expect(Block(0, microbatches=4, microbatch=2))

    assert take(source, 0, microbatches=2) == [0, 1, 2, 3]
    assert take(source, 6) == [6, 7]
    source.close()


class Peculiar(Exception):  # noqa: N818
    """One that does not come out of a pickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_peculiarly() -> NoReturn:
    raise Peculiar(1, 2)


def test_an_exception_that_does_not_pickle_comes_out_by_name(opened: Opened) -> None:
    source = opened(Failing(100, 0, fail_peculiarly))

    with pytest.raises(RuntimeError, match="Peculiar: 1 and 2") as raised:
        take(source, 0)

    assert "dataset[0] raised this" in raised.value.__notes__[0]


def test_a_batch_that_does_not_pickle_says_so(opened: Opened) -> None:
    source = opened(Numbers(100), collate=lambda _: lambda: None)

    with pytest.raises(Exception, match="pickle") as raised:
        take(source, 0)

    assert "must be picklable" in raised.value.__notes__[0]
