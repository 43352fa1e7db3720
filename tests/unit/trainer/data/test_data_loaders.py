"""DataLoaders and datasets of others are taken as they are, and are exact at any world size."""

import warnings
from collections.abc import Callable
from typing import Any

import datasets
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from spotrun_trainer.data.order.sharding import Share, block_of
from spotrun_trainer.data.source import Source, check_goes_back, open_source
from tests.unit.trainer.data.datasets import Forgetful, Numbers, Stream

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchdata.stateful_dataloader import StatefulDataLoader

GLOBAL = 12
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


def loaded(open_it: Callable[[], Source], sizes: list[int]) -> list[int]:
    """Return the samples of a step for each size of the world, each in new processes."""
    samples, state = list[int](), None
    for step, size in enumerate(sizes):
        for rank in range(size):
            source = open_it()
            if state is not None:
                source.restore(state, step * GLOBAL)
            block = block_of(step * GLOBAL, GLOBAL, 2, Share(size, rank))
            samples += [int(one) for batch in source.microbatches(block) for one in of(batch)]
            after = source.state()
            source.close()
        state = after
    return samples


def of(batch: Any) -> list[int]:
    numbers = batch["number"] if isinstance(batch, dict) else batch
    is_stream = isinstance(numbers, torch.Tensor) and numbers.ndim == 2
    return [int(one[0] if is_stream else one) for one in numbers]


def hugging_face(*, is_stream: bool = False) -> Any:
    whole = datasets.Dataset.from_dict({"number": list(range(40))})
    return whole.to_iterable_dataset(num_shards=4) if is_stream else whole


class Own(BatchSampler):
    """A sampler of batches that nobody knows."""


DATA: dict[str, Callable[[], Any]] = {
    "DataLoader": lambda: DataLoader(Numbers(40), batch_size=4, shuffle=True),
    "StatefulDataLoader": lambda: StatefulDataLoader(Numbers(40), batch_size=4, shuffle=True),
    "of a stream": lambda: StatefulDataLoader(Stream(40), batch_size=4),
    "of samples": lambda: DataLoader(Stream(40), batch_size=None),
    "datasets": hugging_face,
    "datasets' stream": lambda: hugging_face(is_stream=True),
    "datasets in a loader": lambda: StatefulDataLoader(hugging_face(), batch_size=8),
}


@pytest.mark.parametrize("kind", DATA)
def test_samples_are_the_same_at_any_number_of_processes(kind: str) -> None:
    def open_it() -> Source:
        return open_source(DATA[kind](), microbatch=2, seed=1, num_workers=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a stream without state is read again
        alone, changing = loaded(open_it, [1, 1, 1]), loaded(open_it, [1, 3, 2])

    assert alone == changing
    assert len(set(alone)) == 36


@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_a_loader_says_order_workers_and_collate(loader: Any) -> None:
    ordered = loader(Numbers(8), batch_size=3, collate_fn=sum, num_workers=0)
    source = open_source(ordered, microbatch=4, seed=1)
    (batch,) = source.microbatches(block_of(0, 4, 4, Share()))
    source.close()

    assert batch == 0 + 1 + 2 + 3
    check_goes_back(ordered, "balance=")
    with pytest.raises(ValueError, match="or leave balance= out"):
        check_goes_back(loader(Forgetful(3), batch_size=2), "balance=")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sampler": DistributedSampler(Numbers(4), 2, 0)}, "has a DistributedSampler"),
        ({"sampler": WeightedRandomSampler([1, 1], 2)}, "has a WeightedRandomSampler"),
        ({"sampler": RandomSampler(Numbers(4), replacement=True)}, "has a RandomSampler"),
        ({"batch_sampler": Own(SequentialSampler([1]), 2, drop_last=False)}, "has a Own"),
        ({"worker_init_fn": print}, "has a worker_init_fn"),
    ],
)
def test_a_loader_that_says_more_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        open_source(DataLoader(Numbers(4), **arguments), microbatch=1, seed=1)


def test_a_state_of_a_loader_is_no_place_in_a_run() -> None:
    loader = StatefulDataLoader(Numbers(8), batch_size=2)
    next(iter(loader))
    again = StatefulDataLoader(Numbers(8), batch_size=2)
    again.load_state_dict(loader.state_dict())
    with pytest.raises(TypeError, match="a run continues from its own checkpoint"):
        open_source(again, microbatch=1, seed=1)


def test_torch_is_what_hugging_face_gives_when_asked() -> None:
    source = open_source(hugging_face().with_format("torch"), microbatch=4, seed=1, num_workers=1)
    (batch,) = source.microbatches(block_of(0, 4, 4, Share()))
    source.close()

    assert isinstance(batch, dict)
    assert isinstance(batch["number"], torch.Tensor)
