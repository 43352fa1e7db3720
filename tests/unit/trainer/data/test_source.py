"""Opening a source: which kind of dataset it is, and how many workers load it."""

import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset
from typing_extensions import override

from spotrun_trainer.data import source
from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.source import check_goes_back, is_stream, open_source, workers_for
from tests.unit.trainer.data.datasets import Forgetful, Numbers, Stream


class OnlyIndexed:
    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Numbers(3), False),
        ([1, 2, 3], False),
        (Subset(Numbers(3), [0]), False),
        (Stream(3), True),
        (iter([1, 2]), True),
        (DataLoader(Forgetful(3), batch_size=None), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_an_index_and_a_length_is_no_stream(dataset: object, *, expected: bool) -> None:
    assert is_stream(dataset) == expected


def test_what_would_be_read_again_from_its_beginning_is_not_dealt_anew() -> None:
    check_goes_back(Numbers(3), "balance=")
    check_goes_back(Stream(3), "balance=")
    with pytest.raises(ValueError, match="or leave balance= out"):
        check_goes_back(Forgetful(3), "balance=")


def test_an_iterable_dataset_is_a_stream_even_if_it_has_a_length() -> None:
    class Known(IterableDataset[int]):
        @override
        def __iter__(self) -> Iterator[int]:
            return iter(range(7))

        def __len__(self) -> int:
            return 7

    assert is_stream(Known())
    assert open_source(Known(), microbatch=1, seed=1, num_workers=0).length == 7


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (OnlyIndexed(), "OnlyIndexed is not a dataset: it has neither"),
        (7, "int is not a dataset"),
    ],
)
def test_what_is_no_dataset_is_said(dataset: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        open_source(dataset, microbatch=1, seed=1)


@pytest.mark.parametrize(
    ("cpus", "local_size", "expected"),
    [(1, 1, 0), (2, 1, 1), (1.5, 1, 0), (4, 1, 3), (16, 4, 3), (8, 8, 0), (96, 8, 8), (96, 1, 8)],
)
def test_cpus_are_shared_and_one_is_left_to_each_training_process(
    cpus: float, local_size: int, expected: int
) -> None:
    assert workers_for(cpus, local_size) == expected


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Numbers(1000), 3),
        (Stream(1000), 1),
        (Numbers(7), 0),
        (TensorDataset(torch.zeros(1000, 1)), 0),
        (Subset(TensorDataset(torch.zeros(1000, 1)), range(900)), 0),
    ],
    ids=["by index", "stream", "tiny", "in memory", "part of what is in memory"],
)
def test_auto_starts_workers_where_they_are_worth_it(
    dataset: Any, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "usable_cpus", lambda: 4.0)
    opened = open_source(dataset, microbatch=2, seed=1)
    opened.expect(Block(0, 1, 2))

    assert len(multiprocessing.active_children()) == expected
    opened.close()


def test_a_stream_has_one_worker_at_the_most() -> None:
    opened = open_source(Stream(9), microbatch=1, seed=1, num_workers=4)
    opened.expect(Block(0, 1, 1))

    assert len(multiprocessing.active_children()) == 1
    opened.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_wait_is_measured_and_read_once(num_workers: int) -> None:
    opened = open_source(Numbers(9), microbatch=1, seed=1, num_workers=num_workers)
    list(opened.microbatches(Block(0, 3, 1)))

    assert opened.wait_seconds > 0
    assert opened.wait_seconds == 0
    opened.close()
