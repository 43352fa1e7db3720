"""Copies of a rank's slices in host memory, made beside the next forward and backward pass.

1.2 GB cannot be copied in the 20 ms that a save may take, but parameters and optimizer state rest
until the next update: copying runs in a thread meanwhile, and `join`, called right before the
update, helps with what is left. What may change earlier is cloned at once.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.memory import copy_bytes
from spotrun_trainer.checkpoint.plan import Slice
from spotrun_trainer.flat import Flat, Spec

PIECE_BYTES = 8 << 20
"""About a millisecond of copying: so finely two threads share the work."""


@dataclass(frozen=True)
class _Piece:
    """A run of elements and where they go, a flat view of the host buffer."""

    source: Tensor
    start: int
    target: Tensor

    def copy(self, *, beside_host: bool = False) -> None:
        stop = self.start + self.target.numel()
        run = self.source.reshape(-1)[self.start : stop]
        if run.device.type == "cpu" and not (run.is_conj() or run.is_neg()):
            copy_bytes(self.target, run)
        else:
            self.target.copy_(run, non_blocking=beside_host)


class HostBuffer:
    """Host memory for one save at a time, kept from save to save."""

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.uint8)

    def take(self, size: int, *, pinned: bool) -> Tensor:
        """So many bytes; what an earlier call returned is overwritten."""
        if self._memory.numel() < size or (pinned and not self._memory.is_pinned()):
            self._memory = torch.empty(0, dtype=torch.uint8)  # the old one goes first
            self._memory = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        return self._memory[:size]


class Staging:
    """One save's copies: begun by its constructor, carried on by every thread that calls `work`."""

    def __init__(self, flat: Flat, slices: Sequence[Slice], buffer: HostBuffer) -> None:
        specs = {one.tensor: Spec.of(flat.tensors[one.tensor]) for one in slices}
        size = sum(specs[one.tensor].itemsize * one.numel for one in slices)
        on_gpu = any(flat.tensors[name].is_cuda for name in specs)
        self.memory = buffer.take(size, pinned=on_gpu)
        pieces = list(_pieces(flat, slices, self.memory))
        self._on_host = deque(piece for piece in pieces if not piece.source.is_cuda)
        self._left = len(self._on_host)
        self._count = threading.Lock()
        self._done = threading.Event()
        if not self._left:
            self._done.set()
        self._error: BaseException | None = None
        self._on_gpu = [piece for piece in pieces if piece.source.is_cuda]
        self._copied = _copy_beside(self._on_gpu) if on_gpu else None

    def work(self) -> None:
        """Copy until nothing is left to begin."""
        while True:
            try:
                piece = self._on_host.popleft()
            except IndexError:
                return
            try:
                piece.copy()
            except Exception as error:  # finish() raises it, in the thread that saves
                self._error = error
            with self._count:
                self._left -= 1
                if not self._left:
                    self._done.set()

    def join(self) -> None:
        """Return when the tensors may change; on a GPU only its queue waits, not the caller."""
        self.work()
        self._done.wait()
        if self._copied is not None:
            self._copied.wait()

    def finish(self) -> Tensor:
        """The staged bytes, once all are there."""
        self.work()
        self._done.wait()
        if self._copied is not None:
            self._copied.synchronize()
        self._on_gpu.clear()
        if self._error is not None:
            raise self._error
        return self.memory


def _pieces(flat: Flat, slices: Sequence[Slice], memory: Tensor) -> Iterable[_Piece]:
    offset = 0
    for one in slices:
        source = flat.tensors[one.tensor]
        if one.tensor in flat.volatile:
            source = source.clone()
        step = max(1, PIECE_BYTES // source.element_size())
        if not source.is_contiguous():
            step = max(1, one.numel)  # reshaping copies, so it is done once
        for start in range(one.start, one.stop, step):
            size = min(step, one.stop - start) * source.element_size()
            target = memory[offset : offset + size].view(source.dtype)
            yield _Piece(source, start, target)
            offset += size


def _copy_beside(pieces: Sequence[_Piece]) -> torch.cuda.Event:
    """Queue copies on a stream of their own, behind what the GPU has been asked for so far."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for piece in pieces:
            piece.copy(beside_host=True)
    copied: torch.cuda.Event = stream.record_event()
    return copied
