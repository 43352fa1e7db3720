"""Batches in page-locked memory, from which a GPU copies them by itself."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import torch

from spotrun_trainer.data.load import Loaded


@runtime_checkable
class Pinnable(Protocol):
    """A tensor, or another result of a collate function that has `pin_memory`."""

    def pin_memory(self) -> object: ...


class Pinner:
    """A thread that pins a batch while the previous one is used for training."""

    def __init__(self) -> None:
        device = torch.cuda.current_device()

        def prepare() -> None:
            torch.cuda.set_device(device)  # a new thread starts with the first device
            torch.set_num_threads(1)  # of this thread: its copies leave the cores to training

        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pin", initializer=prepare)

    def begin(self, loaded: Loaded) -> Future[Loaded]:
        return self._thread.submit(pin, loaded)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


def pin(loaded: Loaded) -> Loaded:
    return loaded._replace(batch=pinned(loaded.batch))


def pinned(batch: object) -> object:
    """Return the batch with its tensors in page-locked memory, in the same structure."""
    match batch:
        case Pinnable():
            return batch.pin_memory()
        case Mapping():
            return _like(batch, {key: pinned(value) for key, value in batch.items()})
        case tuple() if hasattr(batch, "_fields"):
            return _like(batch, *map(pinned, batch))
        case tuple() | list():
            return _like(batch, map(pinned, batch))
        case _:
            return batch


def _like(old: object, *values: object) -> object:
    """Return a container of the same type, made by calling that type."""
    constructor: Any = type(old)
    return constructor(*values)
