"""The elastic dimension: one process group of our own, made for one world and dropped with it.

torch's default group is left alone: it is the user's, and lives as long as the process. A process
that is alone uses nothing of torch.distributed.
"""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch import Tensor, distributed
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # not in __all__

from spotrun_trainer.seat import Seat

ARRIVAL_SECONDS = 600.0  # as long as torchrun's own join_timeout
# A lost peer breaks its connections, or the agent says so; waiting long is for slow microbatches.
COLLECTIVE_SECONDS = 1800.0
_LOOK_SECONDS = 0.5
_TEXT_BYTES = 512
_GPU_POLL_SECONDS = 0.0001


class PeerLostError(Exception):
    """A collective cannot complete, because a process of the world is gone."""


class Pending(Protocol):
    """A collective that is under way."""

    def wait(self) -> None:
        """Return once its result is there for the host; raises PeerLostError."""


class _Done:
    def wait(self) -> None:
        pass


class _Work:
    def __init__(self, work: Any, *, is_on_gpu: bool) -> None:  # noqa: ANN401 - torch's, untyped
        self._work = work
        self._is_on_gpu = is_on_gpu

    def wait(self) -> None:
        try:
            self._work.wait()
            # NCCL's wait only orders streams. But kernels of a broken communicator end early, and
            # what is enqueued after them would take partial sums for results.
            while self._is_on_gpu and not self._work.is_completed():
                time.sleep(_GPU_POLL_SECONDS)
        except RuntimeError as error:
            raise PeerLostError(f"a peer is gone: {_first_line(error)}") from error


class Group:
    """The processes of one world; alone every operation returns at once."""

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        backend: Any = None,  # noqa: ANN401 - torch's, untyped
        *,
        is_nccl: bool = False,
    ) -> None:
        self.rank = rank
        self.size = size
        self._backend = backend
        self._is_nccl = is_nccl

    @classmethod
    def form(
        cls,
        seat: Seat,
        *,
        device: torch.device,
        timeout_seconds: float = ARRIVAL_SECONDS,
        look: Callable[[], None] = lambda: None,
    ) -> "Group":
        """Meet the other processes of the world; `look` is called while waiting, and may raise."""
        if seat.size == 1:
            return cls()
        try:
            store = _store(seat, timeout_seconds)
            _arrive(store, seat.size, timeout_seconds, look)
            is_nccl = device.type == "cuda" and seat.local_size <= torch.cuda.device_count()
            backend = _backend(store, seat, is_nccl=is_nccl)
        except RuntimeError as error:  # its store or a peer went away in between
            raise PeerLostError(f"world {seat.generation}: {_first_line(error)}") from error
        return cls(seat.rank, seat.size, backend, is_nccl=is_nccl)

    def all_reduce(self, tensor: Tensor) -> Pending:
        """Begin to sum a tensor over all processes, in place."""
        if self.size == 1:
            return _Done()
        return self._begin(lambda: self._backend.allreduce([tensor]), tensor)

    def broadcast(self, tensor: Tensor, source: int) -> Pending:
        """Begin to give all processes what one of them has, in place."""
        if self.size == 1:
            return _Done()
        options = distributed.BroadcastOptions()
        options.rootRank = source
        return self._begin(lambda: self._backend.broadcast([tensor], options), tensor)

    def all_gather(self, tensor: Tensor) -> Tensor:
        """What all processes have, in rank order along a new first dimension."""
        gathered = tensor.new_empty((self.size, *tensor.shape))
        if self.size == 1:
            return gathered.copy_(tensor.unsqueeze(0))
        parts = list(gathered.unbind(0))
        self._begin(lambda: self._backend.allgather([parts], [tensor]), tensor).wait()
        return gathered

    def all_to_all(
        self, output: Tensor, given: Tensor, output_sizes: list[int], given_sizes: list[int]
    ) -> Pending:
        """Begin to send each process its piece of `given`; pieces arrive in rank order."""
        if self.size == 1:
            output.copy_(given)
            return _Done()
        return self._begin(
            lambda: self._backend.alltoall_base(output, given, output_sizes, given_sizes), given
        )

    def text_from(self, source: int, text: str, *, device: torch.device) -> str:
        """A short text that one process has, for all."""
        content = text.encode()
        assert len(content) <= _TEXT_BYTES, "a name, not a document"
        padded = torch.tensor(list(content.ljust(_TEXT_BYTES, b"\0")), dtype=torch.uint8)
        message = padded.to(device)
        self.broadcast(message, source).wait()
        return bytes(message.tolist()).rstrip(b"\0").decode()

    def close(self) -> None:
        """Let go of the connections."""
        self._backend = None

    def _begin(self, collective: Callable[[], Any], tensor: Tensor) -> Pending:
        try:
            return _Work(collective(), is_on_gpu=self._is_nccl and tensor.is_cuda)
        except distributed.DistError as error:
            raise PeerLostError(f"a peer is gone: {_first_line(error)}") from error


def _store(seat: Seat, timeout_seconds: float) -> Store:
    assert seat.store is not None, "more than one process"
    host, port = seat.store
    tcp = TCPStore(
        host,
        port,
        is_master=seat.hosts_store,
        timeout=timedelta(seconds=timeout_seconds),
        wait_for_workers=False,
        multi_tenant=True,  # the user's own init_process_group may share it
    )
    return PrefixStore(f"{seat.secret}/{seat.generation}", tcp)


def _arrive(store: Store, size: int, timeout_seconds: float, look: Callable[[], None]) -> None:
    """Return once all are here: one message each, however many they are."""
    arrived = store.add("arrived", 1)
    if arrived == size:
        store.set("verdict", "go")
    until = time.monotonic() + timeout_seconds
    while True:
        look()
        try:
            store.wait(["verdict"], timedelta(seconds=_LOOK_SECONDS))
        except distributed.DistStoreError:
            if time.monotonic() > until:
                there = store.add("arrived", 0)
                raise PeerLostError(
                    f"only {there} of {size} processes arrived within {timeout_seconds:.0f} s: "
                    "look at the logs of the others, and whether they can reach this one's store"
                ) from None
        else:
            return


def _backend(store: Store, seat: Seat, *, is_nccl: bool) -> Any:  # noqa: ANN401
    timeout = timedelta(seconds=COLLECTIVE_SECONDS)
    if not is_nccl:
        return distributed.ProcessGroupGloo(store, seat.rank, seat.size, timeout)
    # torchrun asks for a watchdog that ends the process; what broke is ours to handle.
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    options = distributed.ProcessGroupNCCL.Options()
    options._timeout = timeout  # noqa: SLF001 - torch gives it no other name
    return distributed.ProcessGroupNCCL(store, seat.rank, seat.size, options)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
