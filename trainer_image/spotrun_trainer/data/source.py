"""The source of a training's data: any dataset of torch's kinds, as microbatches by number."""

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, cast

import torch
from torch.utils.data import IterableDataset, default_collate

from spotrun_trainer.data.data_loaders import Parts, dataset_of, parts_of
from spotrun_trainer.data.iterable_dataset import FromStream, is_stateful
from spotrun_trainer.data.load import Batch, Collate, Json
from spotrun_trainer.data.loader import Loader
from spotrun_trainer.data.map_dataset import FromMap, MapDataset, is_in_memory
from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.workers.cpu_count import usable_cpus

MOST_WORKERS = 8
"""The default limit for one training process: more workers seldom help, and each takes memory."""
TINY = 4
"""The fewest microbatches in an epoch for which workers are worth their start."""


class Source(Protocol):
    """Microbatches by number, loaded ahead, in any world."""

    @property
    def length(self) -> int | None:
        """Samples in an epoch, if the dataset says."""

    @property
    def wait_seconds(self) -> float:
        """Seconds waited for data since this was read last."""

    def expect(self, block: Block) -> None:
        """Begin to load the block and, if its stride tells them, the blocks after it.

        All other microbatches that were expected before are dropped.
        """

    def microbatches(self, block: Block) -> Iterator[Batch]:
        """Yield the block's microbatches, collated, in order; it need not have been expected.

        An exception of the dataset is raised here, and closes the source.
        """

    def state(self) -> dict[str, Json]:
        """Return the state that is needed, besides the number of samples, to continue there."""

    def restore(self, state: dict[str, Json], start: int) -> None:
        """Continue with sample `start` of a training that was saved with `state`."""

    def close(self) -> None:
        """End the workers; nothing can be requested any more."""


def open_source(
    dataset: MapDataset | Iterable[object],
    *,
    microbatch: int,
    seed: int,
    shuffle: bool = True,
    num_workers: int | Literal["auto"] = "auto",
    collate: Collate | None = None,
    local_size: int = 1,
) -> Source:
    """Open a source of the dataset's samples, each exactly once per epoch.

    The order depends on `seed` and the epoch; a stream (a dataset that is only iterable) has its
    own. Before each sample the generators of random, torch and numpy are seeded, so what a dataset
    draws depends on the sample and the epoch alone; it seeds generators of its own with
    `torch.initial_seed()`. `__getitems__`, where there is one, is seeded once for a microbatch.

    "auto" divides the CPUs among the `local_size` training processes of this machine and leaves one
    to each; data that is in memory, or tiny, is loaded without workers, and a stream by at most
    one. Workers are forked, unless the program has chosen another way with `set_start_method`, and
    close inherited sockets: a dataset opens its connections when its first sample is fetched.

    A DataLoader is taken as its dataset, with its order, its collate function and, where
    `num_workers` is "auto", its workers; its batch size is not used.
    """
    parts = parts_of(Parts(dataset, shuffle, num_workers, collate))
    dataset, shuffle, num_workers = parts.dataset, parts.shuffle, parts.num_workers
    collate = parts.collate or default_collate
    pinning = torch.cuda.is_available()
    if is_stream(dataset):
        stream = FromStream(cast("Iterable[object]", dataset), seed=seed, collate=collate)
        return Loader(stream, num_workers=_of_stream(num_workers, local_size), pinning=pinning)
    samples = cast("MapDataset", dataset)
    feed = FromMap(samples, seed=seed, shuffle=shuffle, collate=collate)
    if num_workers == "auto":
        is_tiny = feed.length < TINY * microbatch or is_in_memory(samples)
        num_workers = 0 if is_tiny else workers_for(usable_cpus(), local_size)
    return Loader(feed, num_workers=num_workers, pinning=pinning)


def check_goes_back(dataset: MapDataset | Iterable[object], option: str) -> None:
    """Raise ValueError for a stream that would be read again whenever microbatches are redealt.

    `option` is the option of the script that redeals them.
    """
    dataset = dataset_of(dataset)
    if is_stream(dataset) and not is_stateful(dataset):
        raise ValueError(
            f"{option} deals a process other microbatches from time to time, and this "
            "iterable dataset would be read again from its beginning each time: give it state_dict "
            f"and load_state_dict, or leave {option} out"
        )


def is_stream(dataset: object) -> bool:
    """Whether samples can only be read in order, not by index."""
    has_index = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)
    if has_index and hasattr(dataset, "__len__"):
        return False
    if hasattr(dataset, "__iter__"):
        return True
    raise TypeError(
        f"a {type(dataset).__name__} is not a dataset: it has neither __getitem__ and __len__"
        " (samples by index) nor __iter__ (a stream of samples)"
    )


def workers_for(cpus: float, local_size: int) -> int:
    """Return the loader workers of one of `local_size` training processes that share these CPUs."""
    return max(0, min(MOST_WORKERS, int(cpus / local_size) - 1))


def _of_stream(num_workers: int | Literal["auto"], local_size: int) -> int:
    """Return at most one worker: a stream has one order, in which one process reads it."""
    return min(1, workers_for(usable_cpus(), local_size) if num_workers == "auto" else num_workers)
