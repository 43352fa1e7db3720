"""Groups of stub ranks, which are threads of one process, with the face of the trainer's group."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from spotrun_trainer.elastic.process_group import Group

T = TypeVar("T")

PATIENCE_SECONDS = 300.0
STACK_BYTES = 1 << 20


class Exchange:
    """The tensors that ranks of one group have put up for each other, by the number of the call."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._there = threading.Condition()
        self._put: dict[int, dict[int, Tensor]] = {}
        self._taken: dict[int, int] = {}

    def put(self, number: int, rank: int, tensor: Tensor) -> None:
        """Put up one rank's tensor."""
        with self._there:
            self._put.setdefault(number, {})[rank] = tensor.detach().clone()
            self._there.notify_all()

    def take(self, number: int, count: int) -> dict[int, Tensor]:
        """Return the tensors of a collective, once so many are there; each rank asks once."""
        with self._there:
            is_there = self._there.wait_for(
                lambda: len(self._put.get(number, ())) >= count, PATIENCE_SECONDS
            )
            assert is_there, f"collective {number}: not all ranks came"
            found = self._put[number]
            self._taken[number] = self._taken.get(number, 0) + 1
            if self._taken[number] == self.size:
                del self._put[number], self._taken[number]
            return found


@dataclass
class Begun:
    """A collective in flight."""

    end: Callable[[], object]

    def wait(self) -> None:
        self.end()


class StubGroup:
    """One rank's end of a group."""

    is_nccl = False
    replica = None

    def __init__(self, rank: int, exchange: Exchange) -> None:
        self.rank = rank
        self.size = exchange.size
        self._exchange = exchange
        self._number = 0

    @property
    def peers(self) -> "StubGroup":
        return self

    def broadcast(self, tensor: Tensor, source: int) -> Begun:
        number = self._next()
        if self.rank == source:
            self._exchange.put(number, source, tensor)

        def end() -> None:
            found = self._exchange.take(number, 1)[source]
            if self.rank != source:
                tensor.copy_(found)

        return Begun(end)

    def all_gather(self, tensor: Tensor) -> Tensor:
        number = self._next()
        self._exchange.put(number, self.rank, tensor)
        found = self._exchange.take(number, self.size)
        return torch.stack([found[rank] for rank in range(self.size)])

    def all_reduce(self, tensor: Tensor) -> Begun:
        number = self._next()
        self._exchange.put(number, self.rank, tensor)

        def end() -> None:
            found = self._exchange.take(number, self.size)
            tensor.copy_(torch.stack([found[rank] for rank in range(self.size)]).sum(0))

        return Begun(end)

    text_from = Group.text_from
    total = Group.total
    prove = Group.prove

    def _next(self) -> int:
        self._number += 1
        return self._number


def stub_groups(size: int) -> list[Group]:
    """Return the ends of one group, by rank."""
    exchange = Exchange(size)
    return [cast("Group", StubGroup(rank, exchange)) for rank in range(size)]


def in_threads(size: int, does: Callable[[int], T]) -> list[T]:
    """Return what each rank does, all at a time; raises the first error."""
    results: dict[int, Any] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = does(rank)
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(STACK_BYTES)
    try:
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
        for thread in threads:
            thread.start()
    finally:
        threading.stack_size(before)
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(size)]
