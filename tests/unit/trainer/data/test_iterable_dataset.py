"""Iterable datasets: one stream for all, that goes on where it was."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import IterableDataset, default_collate
from typing_extensions import override

from spotrun_trainer.data.iterable_dataset import FromStream
from spotrun_trainer.data.load import Json, Request
from spotrun_trainer.data.order.sharding import Block, Share, block_of
from spotrun_trainer.data.source import Source, open_source
from tests.unit.trainer.data.datasets import Forgetful, Stream

torch.set_num_threads(1)


def opened(dataset: Any, num_workers: int = 0) -> Source:
    return open_source(dataset, microbatch=2, seed=1, num_workers=num_workers)


def step(number: int, *, size: int = 1, rank: int = 0) -> Block:
    """A block of a step of 12 samples."""
    return block_of(12 * number, 12, 2, Share(size, rank))


def take(source: Source, *blocks: Block) -> list[list[float]]:
    """Number and random number of each sample."""
    batches: Iterable[Any] = (batch for block in blocks for batch in source.microbatches(block))
    return [row for batch in batches for row in batch.tolist()]


def numbers(rows: list[list[float]]) -> list[int]:
    return [int(row[0]) for row in rows]


def test_samples_come_in_the_order_of_the_stream_and_across_its_end() -> None:
    rows = take(opened(Stream(20)), *map(step, range(4)))

    assert [number % 20 for number in range(48)] == numbers(rows)
    assert len({row[1] for row in rows}) == 48


def test_a_worker_that_reads_ahead_gives_the_same_bits() -> None:
    source = opened(Stream(20), num_workers=1)
    rows = take(source, *map(step, range(4)))
    source.close()

    assert take(opened(Stream(20)), *map(step, range(4))) == rows


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=5))
def test_every_sample_is_used_once_whatever_the_worlds(worlds: list[tuple[int, int]]) -> None:
    sources = [opened(Stream(17)) for _ in range(6)]
    number, together = 0, []
    for size, steps in worlds:
        for _ in range(steps):
            for rank in range(size):
                together += take(sources[rank], step(number, size=size, rank=rank))
            number += 1

    assert take(opened(Stream(17)), *map(step, range(number))) == together


def test_a_step_that_comes_again_is_read_again() -> None:
    source = opened(Stream(30))
    first = take(source, step(0), step(1))

    assert first[12:] == take(source, step(1))
    assert first[18:] == take(source, step(1, size=2, rank=1))
    assert first[12:18] == take(source, step(1, size=2, rank=0))


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(("size", "rank"), [(1, 0), (2, 1), (5, 2)])
def test_a_restored_stream_goes_on_where_it_was_whoever_saved_it(
    num_workers: int, size: int, rank: int
) -> None:
    saver = opened(Stream(50), num_workers)
    take(saver, *(step(number, size=size, rank=rank) for number in range(9)))
    state = saver.state()
    saver.close()

    dataset = Stream(50)
    restored = opened(dataset)
    restored.restore(state, start=9 * 12)

    expected = take(opened(Stream(50)), *map(step, range(12)))
    assert expected[9 * 12 :] == take(restored, *map(step, range(9, 12)))
    assert dataset.num_read <= 3 * 12 + 2 * 12


def test_a_state_suits_a_step_that_was_not_finished() -> None:
    # Interrupted in step 3: its samples are not counted, but they were asked for.
    saver = opened(Stream(50))
    take(saver, *(step(number, size=2, rank=1) for number in range(3)))
    next(saver.microbatches(step(3, size=2, rank=1)))

    restored = opened(Stream(50))
    restored.restore(saver.state(), start=3 * 12)

    assert take(opened(Stream(50)), *map(step, range(4)))[36:] == take(restored, step(3))


def test_a_state_at_the_end_of_an_epoch_begins_the_next() -> None:
    saver = opened(Stream(24))
    take(saver, step(0), step(1))
    assert take(saver, step(2))  # so that the newest place is exactly the end
    restored = opened(Stream(24))
    restored.restore(saver.state(), start=36)

    assert [*range(12, 24)] == numbers(take(restored, step(3)))


def test_a_stream_without_state_is_read_again_and_says_so() -> None:
    expected = take(opened(Forgetful(50)), *map(step, range(4)))
    saver = opened(Forgetful(50))
    take(saver, step(0), step(1))

    restored = opened(Forgetful(50))
    with pytest.warns(UserWarning, match="no state_dict: its first 24 samples are read again"):
        restored.restore(saver.state(), start=24)

    assert expected[24:] == take(restored, step(2), step(3))


def test_a_one_shot_iterator_can_be_read_once() -> None:
    source = opened(iter(torch.arange(14).view(14, 1)))

    assert [*range(12)] == numbers(take(source, step(0)))
    with pytest.raises(ValueError, match="gave 14 samples, but none when it was started again"):
        take(source, step(1))


def test_reading_ahead_of_the_end_of_a_one_shot_iterator_is_no_error() -> None:
    source = opened(iter(torch.arange(12).view(12, 1)), num_workers=1)

    assert [*range(12)] == numbers(take(source, step(0)))
    source.close()


class Shuffled(IterableDataset[Tensor]):
    """A stream that draws its order in each epoch, when it is begun."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.order: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    @override
    def __iter__(self) -> Iterator[Tensor]:
        self.order = torch.randperm(12).tolist()
        return (torch.tensor([float(number)]) for number in self.order)


def test_an_order_drawn_by_iter_is_the_same_for_all_and_another_in_each_epoch() -> None:
    dataset = Shuffled()
    epochs = [numbers(take(source, step(0))) for source in (opened(dataset), opened(Shuffled()))]
    assert epochs[0] == epochs[1]

    source = opened(dataset)
    assert numbers(take(source, step(0))) != numbers(take(source, step(1)))
    assert dataset.epochs == [0, 0, 1]


class ShuffledAndStateful(Shuffled):
    """Says how far it is in an order that it draws when it is begun."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    @override
    def __iter__(self) -> Iterator[Tensor]:
        self.order = torch.randperm(12).tolist()
        return self._rest()

    def _rest(self) -> Iterator[Tensor]:
        while self._next < 12:
            self._next += 1
            yield torch.tensor([float(self.order[self._next - 1])])
        self._next = 0

    def state_dict(self) -> dict[str, int]:
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._next = state["next"]


def test_an_order_drawn_by_iter_is_drawn_again_after_a_restore() -> None:
    blocks = [Block(4 * number, 2, 2, stride=4) for number in range(6)]
    expected = numbers(take(opened(ShuffledAndStateful()), *blocks))
    saver = opened(ShuffledAndStateful())
    take(saver, *blocks[:5])

    restored = opened(ShuffledAndStateful())
    restored.restore(saver.state(), start=20)

    assert numbers(take(restored, blocks[5])) == expected[20:]


class Saying(Forgetful):
    """A stream that says something peculiar about its state."""

    def __init__(self, state: object) -> None:
        super().__init__(10)
        self._state = state

    def state_dict(self) -> object:
        return self._state

    def load_state_dict(self, state: object) -> None:
        raise AssertionError(state)


@pytest.mark.parametrize("state", [{"at": (1, 2)}, {1: 2}, {"tensor": torch.zeros(2)}, {1, 2}])
def test_a_state_that_is_no_json_is_refused(state: object) -> None:
    with pytest.raises(TypeError, match=r"state_dict\(\) is not JSON"):
        take(opened(Saying(state)), step(0))


@pytest.mark.parametrize(
    ("dataset", "state", "said"),
    [
        (Stream(9), {"length": 9, "seed": 1, "shuffle": True}, "a dataset that is not a stream"),
        (Forgetful(9), {"position": 2, "epoch": 0, "state": {"next": 2}}, "no load_state_dict"),
    ],
)
def test_a_state_of_other_data_is_refused(
    dataset: object, state: dict[str, Json], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        opened(dataset).restore(state, start=4)


class Torn(Stream):
    """A stream that breaks at a number, the first time it is read."""

    @override
    def __iter__(self) -> Iterator[Tensor]:
        for value in super().__iter__():
            if value[0] == 7:
                raise OSError("the disk is gone")
            yield value


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_stream_that_raises_is_said_with_the_sample(num_workers: int) -> None:
    source = opened(Torn(30), num_workers)

    with pytest.raises(OSError, match="the disk is gone") as raised:
        take(source, step(0))

    assert "instead of giving sample 7 of the stream, in epoch 0" in raised.value.__notes__[0]
    with pytest.raises(RuntimeError, match="closed"):
        take(source, step(0))


def test_a_stream_that_has_raised_is_not_taken_for_one_at_its_end() -> None:
    # A failure ahead may be dropped by a change of the world; what follows it is asked for later.
    load = FromStream(Torn(30), seed=1, collate=default_collate).load()
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is gone"):
            load(Request(first=6, size=2))
        with pytest.raises(OSError, match="the disk is gone"):
            load(Request(first=8, size=2))
