"""A stand-in for torch's group of NCCL, on the CPU: it ends as NCCL was seen to end on a GPU.

Collectives wait in a stream, one after the other, and torch's wait for one returns at once. A peer
that is lost ends nothing: the others wait until they abort. Then what runs and what is still in the
stream ends early and *without an error*, and leaves a partial sum. Shares travel through the
world's store, which is a process of its own and outlives all members.
"""

import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, ClassVar

import torch
from torch import Tensor, distributed
from torch._C._distributed_c10d import ErrorType
from torch.distributed import Store  # type: ignore[attr-defined]  # not in __all__

from spotrun_trainer.elastic import process_group

_LOOK_SECONDS = 0.0005


class WorkOnHost:
    """A collective of the stand-in."""

    def __init__(self) -> None:
        self._has_ended = threading.Event()

    def wait(self) -> bool:
        """Return at once: NCCL's only orders streams."""
        return True

    def is_completed(self) -> bool:
        """Whether it has ended, whole or early."""
        return self._has_ended.is_set()

    def end(self) -> None:
        """Note its end."""
        self._has_ended.set()


class NcclOnHost:
    """The part of torch's ProcessGroupNCCL that a world uses."""

    class Options:
        """The options that torch has; none changes anything here."""

    abort_seconds = 0.0
    """The time that an abort takes, in which it ends nothing."""
    whole: ClassVar[dict[str, int]] = {}
    """The number of each kind that still end whole. The next one ends early by itself: a collective
    with half of the result, and a message with zeros."""

    def __init__(self, store: Store, rank: int, size: int, _options: object) -> None:
        self.bound_device_id: torch.device | None = None
        self._store, self._rank, self._size = store, rank, size
        self._is_aborted = threading.Event()
        self._counts = Counter[str]()
        self._stream = queue.SimpleQueue[Callable[[], None] | None]()
        threading.Thread(target=_run, args=(self._stream,), daemon=True).start()

    def __del__(self) -> None:
        self._stream.put(None)

    def eager_connect_single_device(self, _gpu: torch.device) -> None:
        """Do nothing: the store connects all."""

    def get_error(self) -> ErrorType:
        """Return that none was noticed."""
        return ErrorType.SUCCESS

    def abort(self) -> None:
        """End everything that waits, and take part in nothing any more."""
        time.sleep(NcclOnHost.abort_seconds)
        self._is_aborted.set()
        is_idle = threading.Event()
        self._stream.put(is_idle.set)
        is_idle.wait()

    def allreduce(self, tensors: Sequence[Tensor]) -> WorkOnHost:
        """Sum in place, in rank order."""
        (tensor,) = tensors

        def reduce(shares: Sequence[Tensor | None]) -> None:
            total = torch.zeros_like(tensor)
            for share in shares:
                if share is not None:
                    total += share
            if any(share is None for share in shares):  # cut off: a half is this process's alone
                tensor.view(-1)[::2] = total.view(-1)[::2]
            else:
                tensor.copy_(total)

        return self._collective(tensor, reduce, tensors)

    def broadcast(self, tensors: Sequence[Tensor], options: Any) -> WorkOnHost:
        """Copy one rank's tensor."""
        (tensor,) = tensors

        def copy(shares: Sequence[Tensor | None]) -> None:
            _copy(tensor, shares[options.rootRank])

        return self._collective(tensor, copy, tensors)

    def allgather(
        self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor]
    ) -> WorkOnHost:
        """Copy everybody's tensor."""
        (parts,), (tensor,) = outputs, tensors

        def gather(shares: Sequence[Tensor | None]) -> None:
            for part, share in zip(parts, shares, strict=True):
                _copy(part, share)

        return self._collective(tensor, gather, parts)

    def alltoall_base(
        self, output: Tensor, given: Tensor, output_sizes: list[int], given_sizes: list[int]
    ) -> WorkOnHost:
        """Copy from each rank the piece for this one; all say how long theirs are."""
        even = [len(given) // self._size] * self._size
        ends = [0, *accumulate(given_sizes or even)]
        places = [output[end - size : end] for end, size in _ends(output_sizes or even)]
        pieces = [given[ends[rank] : ends[rank + 1]] for rank in range(self._size)]
        number, ends_early = self._next("all to all"), self._ends_early("collective")

        def exchange() -> None:
            for rank, piece in enumerate(pieces):
                self._tell(f"{number}/{self._rank}>{rank}", piece)
            for rank, place in enumerate(places):
                share = self._heard(f"{number}/{rank}>{self._rank}", place)
                if ends_early and rank == self._size // 2:
                    self._is_aborted.set()
                    return
                _copy(place, share)

        return self._begin(exchange)

    def send(self, tensors: Sequence[Tensor], rank: int, _tag: int) -> WorkOnHost:
        """Send one tensor; it ends once the receiver has it."""
        (tensor,) = tensors
        number = self._next(f"{self._rank}>{rank}")

        def say() -> None:
            self._tell(number, tensor)
            self._heard(f"{number} is there", tensor.new_zeros(1))

        return self._begin(say)

    def recv(self, tensors: Sequence[Tensor], rank: int, _tag: int) -> WorkOnHost:
        """Receive one tensor."""
        (tensor,) = tensors
        number = self._next(f"{rank}>{self._rank}")
        ends_early = self._ends_early("message")

        def hear() -> None:
            if ends_early:
                self._is_aborted.set()
                tensor.zero_()
                return
            _copy(tensor, self._heard(number, tensor))
            self._tell(f"{number} is there", tensor.new_zeros(1))

        return self._begin(hear)

    def _collective(
        self,
        own: Tensor,
        use: Callable[[Sequence[Tensor | None]], None],
        written: Sequence[Tensor],
    ) -> WorkOnHost:
        number = self._next("collective")
        ends_early = self._ends_early("collective")

        def exchange() -> None:
            self._tell(f"{number}/{self._rank}", own)
            shares = [self._heard(f"{number}/{rank}", own) for rank in range(self._size)]
            before = [(half, half.clone()) for half in _first_half(written)]
            use(shares)
            if ends_early:
                self._is_aborted.set()  # by NCCL itself: the process does not know
                for half, content in before:
                    half.copy_(content)

        return self._begin(exchange)

    def _begin(self, kernel: Callable[[], None]) -> WorkOnHost:
        work = WorkOnHost()

        def run() -> None:
            if not self._is_aborted.is_set():
                try:
                    kernel()
                except distributed.DistError:  # the world's connections were cut: nobody is heard
                    self._is_aborted.wait()
            work.end()

        self._stream.put(run)
        return work

    def _ends_early(self, kind: str) -> bool:
        left = NcclOnHost.whole.pop(kind, None)
        if left:
            NcclOnHost.whole[kind] = left - 1
        return left == 0

    def _next(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind} {self._counts[kind]}"

    def _tell(self, key: str, tensor: Tensor) -> None:
        if not self._is_aborted.is_set():
            content = tensor.detach().contiguous().view(-1).view(torch.uint8)
            self._store.set(key, content.numpy().tobytes())  # type: ignore[arg-type]  # or bytes

    def _heard(self, key: str, like: Tensor) -> Tensor | None:
        """Wait for what another process says; None once this one has aborted."""
        while not self._store.check([key]):
            if self._is_aborted.is_set():
                return None
            time.sleep(_LOOK_SECONDS)
        content = bytearray(self._store.get(key))
        if not content:
            return like.new_empty(0)
        return torch.frombuffer(content, dtype=like.dtype)[: like.numel()].view(like.shape)


def _run(stream: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
    while (kernel := stream.get()) is not None:
        kernel()


def _first_half(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    if len(tensors) > 1:
        return tensors[: len(tensors) // 2]
    return [tensors[0].view(-1)[: tensors[0].numel() // 2]]


def _ends(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(accumulate(sizes), sizes, strict=True))


def _copy(to: Tensor, share: Tensor | None) -> None:
    if share is not None:
        to.copy_(share)


def pretend() -> None:
    """Let this process's worlds meet as if each process had a GPU of its own."""
    distributed.ProcessGroupNCCL = NcclOnHost  # type: ignore[misc,assignment]
    process_group.name_of_gpu = lambda _device: f"process {os.getpid()}"  # type: ignore[attr-defined,assignment]
    process_group.with_index = lambda device: device  # type: ignore[attr-defined,assignment]
