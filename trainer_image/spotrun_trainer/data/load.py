"""What is asked of whoever loads microbatches, and what they give."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Batch: TypeAlias = object
"""What the collate function makes of the samples: tensors in whatever structure."""
Collate = Callable[[list[object]], Batch]


class Request(NamedTuple):
    """One microbatch, wherever and whenever it is loaded."""

    first: int
    """The number of its first sample since the beginning of training."""
    size: int
    floor: int = 0
    """Nothing that begins before this sample will be asked for again."""


class Snapshot(NamedTuple):
    """Where an iterable dataset was before it gave sample `position`."""

    position: int
    epoch: int
    state: str | None
    """Its state_dict() as JSON; None: as it was handed over."""


class Loaded(NamedTuple):
    """A microbatch, and for an iterable dataset where it was before."""

    batch: Batch
    snapshot: Snapshot | None = None


class Load(Protocol):
    """Runs in loader workers, or in the training process where there are none."""

    @property
    def dataset(self) -> object:
        """What it loads from."""

    @property
    def draws(self) -> bool:
        """Whether it may seed and use the global generators of random numbers."""

    def __call__(self, request: Request) -> Loaded: ...


def collated(collate: Collate, values: list[object], which: str) -> Batch:
    """The microbatch of these samples; what goes wrong names them."""
    try:
        return collate(values)
    except Exception as error:
        error.add_note(
            f"Collating samples {which} raised this. If they do not stack,"
            " give a function that puts a list of them together: collate=..."
        )
        raise
