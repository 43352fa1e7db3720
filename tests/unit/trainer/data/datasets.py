"""Datasets that tests train on; in a module of their own, so that spawned workers find them."""

import random
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset
from typing_extensions import override


class Numbers(Dataset[Tensor]):
    """Sample 7 is tensor(7)."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    @override
    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(index)


class Augmented(Numbers):
    """Each sample with random numbers of all three kinds."""

    @override
    def __getitem__(self, index: int) -> Any:
        return {
            "index": index,
            "drawn": (torch.rand(2), random.random(), np.random.rand()),  # noqa: S311
        }


class Stream(IterableDataset[Tensor]):
    """Numbers from 0 on, with a random one each, that can go on anywhere; counts what it read."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.next = 0
        self.num_read = 0

    @override
    def __iter__(self) -> Iterator[Tensor]:
        while self.next < self.length:
            self.next += 1
            self.num_read += 1
            yield torch.tensor([self.next - 1.0, random.random()])  # noqa: S311
        self.next = 0

    def state_dict(self) -> dict[str, int]:
        return {"next": self.next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next = state["next"]


class Forgetful(IterableDataset[Tensor]):
    """A stream that cannot say where it is."""

    def __init__(self, length: int) -> None:
        self.length = length

    @override
    def __iter__(self) -> Iterator[Tensor]:
        for number in range(self.length):
            yield torch.tensor([float(number), random.random()])  # noqa: S311


class Logged(Numbers):
    """Numbers that note each use in a file, and wait at a gate if there is one."""

    def __init__(self, length: int, log: Path, gate: Event | None = None) -> None:
        super().__init__(length)
        self._log = log
        log.touch()
        self._gate = gate

    @override
    def __getitem__(self, index: int) -> Tensor:
        with self._log.open("a") as log:  # short lines of several processes do not mix
            log.write(f"{index}\n")
        if self._gate:
            assert self._gate.wait(timeout=30)
        return super().__getitem__(index)

    def used(self) -> list[int]:
        return sorted(int(line) for line in self._log.read_text().split())


class Failing(Numbers):
    """Numbers, of which one does what it is told instead."""

    def __init__(self, length: int, index: int, does: Callable[[], object]) -> None:
        super().__init__(length)
        self._index = index
        self._does = does

    @override
    def __getitem__(self, index: int) -> Any:
        return self._does() if index == self._index else super().__getitem__(index)
