"""Reading a checkpoint together: each process reads and verifies a share, and sends it to all.

If each of N processes read all of it, the store would send the state N times. Processes that hold
the same part of the model together read each file only once. An error of one is raised in all of
them, at the same place: otherwise some would wait for others that never come.
"""

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError, UnreadableCheckpointError
from spotrun_trainer.checkpoint.format.placing import put
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.checkpoint.storage_retries import patiently

SHARE_BYTES = 16 << 20
"""Each process reads less than this by itself: that takes a tenth of a second."""
CHUNK_BYTES = 8 << 20
AT_A_TIME = 16
"""Chunks in flight, from several senders, so that all their links are in use."""

T = TypeVar("T")


class Pending(Protocol):
    """A collective in flight."""

    def wait(self) -> None:
        """Return once the result is complete."""


class Peers(Protocol):
    """The processes that hold the same part of the model (`elastic/process_group.Group`)."""

    rank: int
    size: int

    def total(self, tensor: Tensor) -> list[Any]:
        """Sum a few numbers over all processes, and return them to the host."""

    def broadcast(self, tensor: Tensor, source: int) -> Pending:
        """Begin to copy one process's tensor to all processes, in place."""

    def text_from(self, source: int, text: str, *, device: torch.device) -> str:
        """Return one process's text in all processes."""


class Readers(Protocol):
    """The processes that read a checkpoint: one by itself, or several together."""

    def read(self, function: Callable[[], T]) -> T:
        """Return what a function reads, once it has succeeded in all of them."""

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items that this process reads."""

    def texts(self, own: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """Return the small files of all, by their numbers."""

    def of_data(self, num_bytes: int) -> "Readers":
        """Return those that read so much data: each by itself, if that is little."""

    def fill(self, tensors: Mapping[str, Tensor], items: Sequence[Sequence[Slice]]) -> None:
        """Fill the tensors with what the others have read, if each reads its share of items."""


class ByItself:
    """A process that reads all that it needs."""

    def read(self, function: Callable[[], T]) -> T:
        """Return what a function reads."""
        return function()

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return all items."""
        return items

    def texts(self, own: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """Return the files of this process, which are all."""
        return own

    def of_data(self, num_bytes: int) -> Readers:
        """Return this process."""
        return self

    def fill(self, tensors: Mapping[str, Tensor], items: Sequence[Sequence[Slice]]) -> None:
        """Do nothing: all is read."""


BY_ITSELF = ByItself()


@dataclass(frozen=True)
class Together:
    """Several processes that read together; `device` is where their collectives take tensors."""

    peers: Peers
    device: torch.device
    is_divided: bool = True  # False: each reads everything, and they only agree on errors

    def read(self, function: Callable[[], T]) -> T:
        """Return what a function reads, retried for a minute; raises the error of any of them.

        So all leave at the same place.
        """
        result, error = list[T](), None
        try:
            result.append(patiently(function))
        except (DamagedCheckpointError, UnreadableCheckpointError) as raised:
            error = raised
        own = 0 if error is None else 1 + isinstance(error, UnreadableCheckpointError)
        said = torch.zeros(self.peers.size, device=self.device)
        said[self.peers.rank] = own
        found = [int(one) for one in self.peers.total(said)]
        if any(found):
            worst = max(found)
            text = self.peers.text_from(found.index(worst), str(error), device=self.device)
            kind = DamagedCheckpointError if worst == 1 else UnreadableCheckpointError
            raise error or kind(text)
        return result[0]

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items that this process reads: one share for each process."""
        return items[self.peers.rank :: self.peers.size] if self.is_divided else items

    def texts(self, own: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """Return the small files of all, by their numbers."""
        content = json.dumps({number: text.decode("latin-1") for number, text in own.items()})
        lengths = torch.zeros(self.peers.size, dtype=torch.int64, device=self.device)
        lengths[self.peers.rank] = len(content)
        sizes = self.peers.total(lengths)
        buffers = [torch.empty(size, dtype=torch.uint8) for size in sizes]
        bytes_of(buffers[self.peers.rank])[:] = content.encode()
        buffers = [buffer.to(self.device) for buffer in buffers]
        begun = (
            (self.peers.broadcast(buffer, source), buffer) for source, buffer in enumerate(buffers)
        )
        found = dict[int, bytes]()
        for buffer in _in_flight(begun):
            texts = json.loads(bytes(bytes_of(buffer.cpu())))
            found |= {int(number): text.encode("latin-1") for number, text in texts.items()}
        return found

    def of_data(self, num_bytes: int) -> Readers:
        """Return those that read so much data: each by itself, if that is little."""
        return replace(self, is_divided=num_bytes >= SHARE_BYTES)

    def fill(self, tensors: Mapping[str, Tensor], items: Sequence[Sequence[Slice]]) -> None:
        """Fill the tensors with what the others have read, one chunk of each in turn."""
        if not self.is_divided:
            return
        of_each = [
            [one for item in items[rank :: self.peers.size] for one in _chunks(item, tensors)]
            for rank in range(self.peers.size)
        ]
        rounds = itertools.zip_longest(*of_each)
        in_turns = ((source, one) for each in rounds for source, one in enumerate(each) if one)
        begun = (self._begin(tensors, source, chunk) for source, chunk in in_turns)
        for source, chunk, buffer in _in_flight(begun):
            if source != self.peers.rank:
                _unpack(tensors, chunk, buffer)

    def _begin(
        self, tensors: Mapping[str, Tensor], source: int, chunk: Sequence[Slice]
    ) -> tuple[Pending, tuple[int, Sequence[Slice], Tensor]]:
        make = _pack if source == self.peers.rank else _room_for
        buffer = make(tensors, chunk, self.device)
        return self.peers.broadcast(buffer, source), (source, chunk, buffer)


def _in_flight(begun: Iterable[tuple[Pending, T]]) -> Iterator[T]:
    """Yield the results of collectives, in their order; a few are in flight at a time."""
    under_way = deque[tuple[Pending, T]]()
    for one in begun:
        under_way.append(one)
        if len(under_way) == AT_A_TIME:
            pending, result = under_way.popleft()
            pending.wait()
            yield result
    for pending, result in under_way:
        pending.wait()
        yield result


def _chunks(slices: Sequence[Slice], tensors: Mapping[str, Tensor]) -> Iterator[list[Slice]]:
    """Cut slices into chunks of about equal bytes; the same in all processes."""
    chunk, size = list[Slice](), 0
    for one in slices:
        itemsize = tensors[one.tensor].element_size()
        step = CHUNK_BYTES // itemsize
        for start in range(one.start, one.stop, step):
            piece = Slice(one.tensor, start, min(start + step, one.stop))
            if chunk and size + piece.numel * itemsize > CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
            chunk.append(piece)
            size += piece.numel * itemsize
    if chunk:
        yield chunk


def _pack(tensors: Mapping[str, Tensor], chunk: Sequence[Slice], device: torch.device) -> Tensor:
    """Return a chunk's bytes; without a copy, if it is one slice with contiguous bytes."""
    if (direct := _direct(tensors, chunk, device)) is not None:
        return direct
    pieces = [tensors[one.tensor].reshape(-1)[one.start : one.stop] for one in chunk]
    return torch.cat([piece.view(torch.uint8).to(device) for piece in pieces])


def _room_for(
    tensors: Mapping[str, Tensor], chunk: Sequence[Slice], device: torch.device
) -> Tensor:
    if (direct := _direct(tensors, chunk, device)) is not None:
        return direct
    size = sum(one.numel * tensors[one.tensor].element_size() for one in chunk)
    return torch.empty(size, dtype=torch.uint8, device=device)


def _direct(
    tensors: Mapping[str, Tensor], chunk: Sequence[Slice], device: torch.device
) -> Tensor | None:
    (first, *others) = chunk
    tensor = tensors[first.tensor]
    if others or not tensor.is_contiguous() or tensor.device != device:
        return None
    return tensor.view(-1)[first.start : first.stop].view(torch.uint8)


@torch.no_grad()
def _unpack(tensors: Mapping[str, Tensor], chunk: Sequence[Slice], buffer: Tensor) -> None:
    if _direct(tensors, chunk, buffer.device) is not None:
        return
    offset = 0
    for one in chunk:
        tensor = tensors[one.tensor]
        size = one.numel * tensor.element_size()
        # A copy: elements of several bytes must begin at multiples of their size.
        piece = buffer[offset : offset + size].clone().view(tensor.dtype)
        if tensor.is_contiguous():
            tensor.view(-1)[one.start : one.stop] = piece
        else:
            put(tensor, one.start, piece.to(tensor.device)[None])
        offset += size
