"""Orders of samples: which sample has which number, for datasets that say it themselves too."""

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
        """The seed that the random numbers of samples follow from."""

    def sample(self, number: int) -> Sample:
        """Return the sample with this number."""

    def state(self) -> dict[str, Json]:
        """Return what must be the same when a training goes on, or the order is another."""


class OwnOrder(ABC):
    """A map-style dataset that says in which order its samples are best read.

    `Run` has `shuffle=True` mean that order; a Subset of it is shuffled as any other dataset is.
    """

    draws = False
    """Whether a sample may need random numbers."""
    lead = 0
    """The number of samples that `expect` should be called ahead by; 0: it does nothing."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int, /) -> object: ...

    @abstractmethod
    def order(self, seed: int, *, shuffle: bool) -> SampleOrder:
        """Return the order for a seed; it is a pure function of its arguments and the data."""

    @abstractmethod
    def expect(self, index: int) -> None:
        """Begin to fetch what a sample is in, for it will be asked for soon; do not wait."""

    @abstractmethod
    def part_of(self, index: int) -> Hashable:
        """Return the name of what is fetched for a sample."""

    @abstractmethod
    def preload(self, index: int, most_bytes: int) -> int:
        """Fetch what a sample is in, and return its bytes; 0 if that is there, or larger."""


def order_of(dataset: object, length: int, *, seed: int, shuffle: bool) -> SampleOrder:
    """Return the order of a dataset's samples: its own, or the one of all others."""
    if isinstance(dataset, OwnOrder):
        return dataset.order(seed, shuffle=shuffle)
    return Order(length, seed=seed, shuffle=shuffle)
