"""The data of a run, to train on and to evaluate on."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from spotrun_trainer.data.map_dataset import MapDataset
from spotrun_trainer.data.source import Source, open_source

Data = MapDataset | Iterable[Any]
"""Any dataset of torch's kinds, a list, or any iterable."""
Collate = Callable[[list[Any]], Any]


class Sources:
    """Opens datasets; evaluation data is loaded like training data."""

    def __init__(self, seed: int, local_size: int) -> None:
        self._seed = seed
        self._local_size = local_size
        self._microbatch: int | None = None
        self._num_workers: int | Literal["auto"] = "auto"
        self._collate: Collate | None = None

    def to_train(
        self,
        data: Data,
        microbatch: int,
        *,
        shuffle: bool,
        num_workers: int | Literal["auto"],
        collate: Collate | None,
    ) -> Source:
        """Open the dataset that the steps train on."""
        self._microbatch, self._num_workers, self._collate = microbatch, num_workers, collate
        return self._open(data, microbatch, shuffle=shuffle)

    @contextmanager
    def to_evaluate(self, data: Data, microbatch: int | None) -> Iterator[tuple[Source, int]]:
        """Open a dataset in its own order; yields it with the size of its microbatches."""
        size = microbatch or self._microbatch
        if size is None:
            raise ValueError(
                "run.evaluate before run.steps needs microbatch=, the samples in a batch"
            )
        source = self._open(data, size, shuffle=False)
        try:
            yield source, size
        finally:
            source.close()

    def _open(self, data: Data, microbatch: int, *, shuffle: bool) -> Source:
        return open_source(
            data,
            microbatch=microbatch,
            seed=self._seed,
            shuffle=shuffle,
            num_workers=self._num_workers,
            collate=self._collate,
            local_size=self._local_size,
        )
