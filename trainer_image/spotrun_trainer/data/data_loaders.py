"""DataLoaders taken apart: of torch's, and of torchdata's, which keep their position as well.

A DataLoader gives batches to one process, and its position is one of that process: at another
number of processes it means other samples. A run deals samples, and knows its place by their
number. So it takes the dataset, and what the loader says about its order and its samples.
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
    """A dataset, and how it is to be loaded."""

    dataset: AnyData
    shuffle: bool
    num_workers: int | Literal["auto"]
    collate: Collate | None


def parts_of(parts: Parts) -> Parts:
    """Return the parts of a DataLoader where the dataset is one; arguments go before its own.

    Raises TypeError for one that says more than a run can do. `batch_size=None` makes it a stream
    of samples like others, which is left as it is.
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
            "the DataLoader has a worker_init_fn, which a run does not call: put what it does into "
            "the dataset, to be done at its first sample"
        )
    if getattr(loader, "next_iter_state", None) is not None:
        raise TypeError(
            "the DataLoader was given a state by load_state_dict, which is a place in one process's"
            " batches: a run goes on from its own checkpoint, at any number of processes"
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
        "run deals samples itself: leave a DistributedSampler out; what a sampler selects can be a "
        "torch.utils.data.Subset, and weights of datasets spotrun_trainer.data.mix"
    )
