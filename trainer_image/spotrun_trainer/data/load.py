"""Requests for microbatches, and the loaders' results."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Batch: TypeAlias = object
"""The collate function's result: tensors in any structure."""
Collate = Callable[[list[object]], Batch]


class Request(NamedTuple):
    """One microbatch, independent of where and when it is loaded."""

    first: int
    """The number of its first sample since the beginning of training."""
    size: int
    floor: int = 0
    """No microbatch that begins before this sample will be requested again."""


class Snapshot(NamedTuple):
    """The state of an iterable dataset before it gave sample `position`."""

    position: int
    epoch: int
    state: str | None
    """The dataset's state_dict() as JSON; None: its first state."""


class Loaded(NamedTuple):
    """A microbatch, and for an iterable dataset its state before that."""

    batch: Batch
    snapshot: Snapshot | None = None


class Load(Protocol):
    """Loads microbatches in loader workers, or in the training process if there are none."""

    @property
    def dataset(self) -> object:
        """The dataset that it loads from."""

    @property
    def draws(self) -> bool:
        """Whether it may seed and use the global random generators."""

    def __call__(self, request: Request) -> Loaded: ...


def collated(collate: Collate, values: list[object], which: str) -> Batch:
    """Return the microbatch of these samples; an error names them."""
    try:
        return collate(values)
    except Exception as error:
        add_note(
            error,
            f"Collating samples {which} raised this. If they do not stack, give a function that "
            "combines a list of them: collate=...",
        )
        raise


def add_note(error: BaseException, text: str) -> None:
    """Add to the printed text of an error, as `add_note` does; Python 3.10 prints no notes."""
    vars(error).setdefault("__notes__", []).append(text)
