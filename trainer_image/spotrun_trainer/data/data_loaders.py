"""The parts of DataLoaders: torch's, and torchdata's, which also keep their position.

A DataLoader gives batches to one process, and its position belongs to that process: with another
number of processes it means other samples. A run deals samples, and its position is a number of
samples. So a run takes the dataset, and the loader's settings for order and samples.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch.utils.data import DataLoader, IterableDataset

from spotrun_trainer.data.load import Collate
from spotrun_trainer.data.map_dataset import MapDataset

AnyData = MapDataset | Iterable[object]


@dataclass(frozen=True)
class Parts:
    """A dataset, and how to load it."""

    dataset: AnyData
    shuffle: bool
    num_workers: int | Literal["auto"]
    collate: Collate | None


def parts_of(parts: Parts) -> Parts:
    """Return the parts of a DataLoader, if the dataset is one; given arguments replace its own.

    Raises TypeError for settings that a run does not support. With `batch_size=None` it is a stream
    of samples like any other, and is left as it is.
    """
    loader: object = parts.dataset
    if not isinstance(loader, DataLoader) or loader.batch_sampler is None:
        return parts
    _check(loader)
    is_stream = isinstance(loader.dataset, IterableDataset)
    return Parts(
        cast("AnyData", loader.dataset),
        parts.shuffle if is_stream else _is_shuffled(loader),
        (loader.num_workers or "auto") if parts.num_workers == "auto" else parts.num_workers,
        cast("Collate", loader.collate_fn) if parts.collate is None else parts.collate,
    )


def dataset_of(data: AnyData) -> AnyData:
    """Return the dataset of a DataLoader of batches, and any other data as it is."""
    return parts_of(Parts(data, shuffle=True, num_workers=0, collate=None)).dataset


def _check(loader: "DataLoader[Any]") -> None:
    if loader.worker_init_fn is not None:
        raise TypeError(
            "the DataLoader has a worker_init_fn, which a run does not call: move its work into "
            "the dataset, and do it at the first sample"
        )
    if getattr(loader, "next_iter_state", None) is not None:
        raise TypeError(
            "the DataLoader was given a state by load_state_dict, which is a position in one "
            "process's batches: a run continues from its own checkpoint, with any number of "
            "processes"
        )


def _is_shuffled(loader: "DataLoader[Any]") -> bool:
    """Return whether samples are shuffled; torchdata's samplers are classes of their own."""
    sampler: Any = loader.sampler
    kind = type(sampler).__name__
    is_plain = type(loader.batch_sampler).__name__ == "BatchSampler"
    if is_plain and kind == "SequentialSampler":
        return False
    is_random = is_plain and kind == "RandomSampler" and not sampler.replacement
    if is_random and sampler.num_samples == len(sampler.data_source):
        return True
    raise TypeError(
        f"the DataLoader has a {kind if is_plain else type(loader.batch_sampler).__name__}, and a "
        "run deals samples itself: remove a DistributedSampler; to select samples use "
        "torch.utils.data.Subset, and to weight datasets spotrun_trainer.data.mix"
    )
