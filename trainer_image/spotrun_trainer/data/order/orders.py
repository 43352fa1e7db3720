"""Orders of samples: which sample has which number, also for datasets with their own order."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Protocol

from spotrun_trainer.data.load import Json
from spotrun_trainer.data.order.shuffle import Order, Sample


class SampleOrder(Protocol):
    """The mapping from a sample's number, counted from the beginning of training, to the sample."""

    @property
    def length(self) -> int:
        """Samples in an epoch."""

    @property
    def seed(self) -> int:
        """The seed of the samples' random numbers."""

    def sample(self, number: int) -> Sample:
        """Return the sample with this number."""

    def state(self) -> dict[str, Json]:
        """Return the values that must not change when a training continues, to keep the order."""


class OwnOrder(ABC):
    """A map-style dataset that says in which order its samples are best read.

    For `Run`, `shuffle=True` means that order; a Subset of it is shuffled like any other dataset.
    """

    draws = False
    """Whether a sample may need random numbers."""
    lead = 0
    """The number of samples ahead of use at which `expect` should be called; 0: it does nothing."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int, /) -> object: ...

    @abstractmethod
    def order(self, seed: int, *, shuffle: bool) -> SampleOrder:
        """Return the order for a seed; it is a pure function of its arguments and the data."""

    @abstractmethod
    def expect(self, index: int) -> None:
        """Begin to fetch the shard of a sample that will be read soon; do not wait."""

    @abstractmethod
    def part_of(self, index: int) -> Hashable:
        """Return the name of the shard that is fetched for a sample."""

    @abstractmethod
    def preload(self, index: int, most_bytes: int) -> int:
        """Fetch the shard of a sample, and return its bytes; 0 if it is here already, or larger."""


def order_of(dataset: object, length: int, *, seed: int, shuffle: bool) -> SampleOrder:
    """Return the order of a dataset's samples: its own order, or the default one."""
    if isinstance(dataset, OwnOrder):
        return dataset.order(seed, shuffle=shuffle)
    return Order(length, seed=seed, shuffle=shuffle)
