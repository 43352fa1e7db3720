"""The data of a run: what it trains on, and what it evaluates on."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from spotrun_trainer.data.map_dataset import MapDataset
from spotrun_trainer.data.source import Source, open_source

Data = MapDataset | Iterable[Any]
"""Any dataset of torch's kinds, a list, or whatever can be iterated."""
Collate = Callable[[list[Any]], Any]


class Sources:
    """Opens datasets; what is evaluated on is loaded as what is trained on."""

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
        """What the steps go through."""
        self._microbatch, self._num_workers, self._collate = microbatch, num_workers, collate
        return self._open(data, microbatch, shuffle=shuffle)

    @contextmanager
    def to_evaluate(self, data: Data, microbatch: int | None) -> Iterator[tuple[Source, int]]:
        """A dataset in its own order, and the size of its microbatches."""
        size = microbatch or self._microbatch
        if size is None:
            raise ValueError("run.evaluate before run.steps needs to be told: microbatch=")
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
