"""Copies of a rank's slices in host memory, made during the next forward and backward pass.

1.2 GB cannot be copied in the 20 ms that a save may take, but parameters and optimizer state do not
change until the next update: a thread copies meanwhile, and `join`, called right before the update,
helps with the rest. Tensors that may change earlier are cloned at once.
"""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.host_memory import copy_bytes
from spotrun_trainer.state.flatten import Flat, Layout

PIECE_BYTES = 8 << 20
"""About a millisecond of copying: the unit in which two threads share the work."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive elements of a tensor, and where their bytes go."""

    tensor: str
    start: int
    stop: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class Pieces:
    """The pieces that a save copies; the same from save to save."""

    on_host: tuple[Piece, ...] = ()
    on_gpu: tuple[Piece, ...] = ()
    names: frozenset[str] = frozenset()
    bytes: int = 0


class HostBuffer:
    """Host memory for one save at a time; it and its layout are kept for the next save."""

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.uint8)
        self._cut: tuple[Layout | None, Sequence[Slice], Pieces] = (None, (), Pieces())

    def pieces(self, layout: Layout, slices: Sequence[Slice]) -> Pieces:
        """Cut slices into pieces."""
        if self._cut[0] is not layout or self._cut[1] is not slices:
            self._cut = (layout, slices, _cut(layout, slices))
        return self._cut[2]

    def take(self, size: int, *, pinned: bool) -> Tensor:
        """Return `size` bytes; the result of an earlier call is overwritten."""
        if self._memory.numel() < size or (pinned and not self._memory.is_pinned()):
            self._memory = torch.empty(0, dtype=torch.uint8)  # free the old one first
            self._memory = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        return self._memory[:size]


class Staging:
    """One save's copies: begun by the constructor, continued by each thread that calls `work`."""

    def __init__(self, flat: Flat, slices: Sequence[Slice], buffer: HostBuffer) -> None:
        pieces = buffer.pieces(flat.layout, slices)
        volatile = pieces.names & flat.volatile
        clones = {name: flat.tensors[name].detach().clone() for name in volatile}
        self._tensors = flat.tensors | clones
        self.memory = buffer.take(pieces.bytes, pinned=bool(pieces.on_gpu))
        self._on_host = deque(pieces.on_host)
        self._left = len(self._on_host)
        self._count = threading.Lock()
        self._done = threading.Event()
        if not self._left:
            self._done.set()
        self._error: BaseException | None = None
        self._copied = self._copy_beside(pieces.on_gpu) if pieces.on_gpu else None

    @torch.no_grad()
    def work(self) -> None:
        """Copy until no piece is left to begin."""
        while True:
            try:
                piece = self._on_host.popleft()
            except IndexError:
                return
            try:
                self._copy(piece)
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
        """Return the staged bytes, once all are copied."""
        self.work()
        self._done.wait()
        if self._copied is not None:
            self._copied.synchronize()
        self._tensors = {}
        if self._error is not None:
            raise self._error
        return self.memory

    def _copy(self, piece: Piece) -> None:
        run, target = self._source(piece), self._target(piece)
        if run.device.type == "cpu" and not (run.is_conj() or run.is_neg()):
            copy_bytes(target, run)
        else:
            target.copy_(run)

    def _source(self, piece: Piece) -> Tensor:
        run = self._tensors[piece.tensor].reshape(-1)
        return run if piece.stop - piece.start == len(run) else run[piece.start : piece.stop]

    def _target(self, piece: Piece) -> Tensor:
        target = self.memory[piece.offset : piece.offset + piece.bytes]
        return target.view(self._tensors[piece.tensor].dtype)

    @torch.no_grad()
    def _copy_beside(self, pieces: Sequence[Piece]) -> torch.cuda.Event:
        """Queue copies on a separate stream, after all work that the GPU has queued so far."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # All in one call, because training would wait while Python begins them one by one.
            pairs = [(self._target(piece), self._source(piece)) for piece in pieces]
            targets, sources = zip(*pairs, strict=True)
            torch._foreach_copy_(targets, sources, non_blocking=True)
        copied: torch.cuda.Event = stream.record_event()
        return copied


def _cut(layout: Layout, slices: Sequence[Slice]) -> Pieces:
    on_host, on_gpu, offset = list[Piece](), list[Piece](), 0
    for one in slices:
        itemsize = layout.specs[one.tensor].itemsize
        step = max(1, PIECE_BYTES // itemsize)
        # Reshaping copies a scattered tensor, so it is done once; copies on a GPU are not shared.
        if one.tensor in layout.scattered or one.tensor in layout.on_gpu:
            step = max(1, one.numel)
        for start in range(one.start, one.stop, step):
            stop = min(start + step, one.stop)
            piece = Piece(one.tensor, start, stop, offset, (stop - start) * itemsize)
            (on_gpu if one.tensor in layout.on_gpu else on_host).append(piece)
            offset += piece.bytes
    names = frozenset(one.tensor for one in slices)
    return Pieces(tuple(on_host), tuple(on_gpu), names, offset)
