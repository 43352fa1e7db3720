"""Pending collectives: waited for, and kept alive where torch cannot free them yet."""

import ctypes
import time
from datetime import timedelta
from typing import Any, Protocol

from torch import distributed
from torch._C._distributed_c10d import ErrorType

from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.errors import PeerLostError

POLL_SECONDS = 0.0001
SLICE = timedelta(seconds=0.1)
_KEPT = list[tuple[Any, list[Any]]]()  # groups that cannot be freed yet, with their works


class Pending(Protocol):
    """A collective in flight."""

    def wait(self) -> None:
        """Return once the host may use the result; raises PeerLostError."""


class Done:
    """A completed collective, as of a process that is alone."""

    def wait(self) -> None:
        """Return at once."""


class Work:
    """A collective of torch, waited for in slices, to notice in between that a peer has left."""

    def __init__(
        self,
        work: Any,  # noqa: ANN401 - torch's, untyped
        connections: Connections,
        *,
        on_gpu_by: Any = None,  # noqa: ANN401 - torch's: NCCL's group, if it is a kernel of that
    ) -> None:
        self._work = work
        self._connections = connections
        self._on_gpu_by = on_gpu_by

    def is_completed(self) -> bool:
        """Whether it has ended.

        torch's own answer is not enough: gloo's reduce-scatter never reports its end, not even
        after a wait for it.
        """
        work = self._work  # another thread may wait for it meanwhile
        return work is None or bool(work.is_completed())

    def wait(self) -> None:
        """Return once the host may use the result; raises PeerLostError."""
        if self._work is None:
            return
        try:
            if self._on_gpu_by is None:
                self._wait_for_host()
            else:
                self._wait_for_gpu()
        except RuntimeError as error:
            raise PeerLostError(f"a peer is gone: {first_line(error)}") from error
        self._work = None  # it holds its tensors

    def _wait_for_gpu(self) -> None:
        """Wait for its kernel; torch's own wait only orders streams.

        Kernels of a broken communicator end early, and later kernels would take partial sums for
        results. torch calls a failed collective completed, too, and raises only in another wait;
        `exception` cannot be called from Python.
        """
        self._work.wait()
        while not self._work.is_completed():
            self._connections.check()
            time.sleep(POLL_SECONDS)
        self._work.wait()
        if (error := self._on_gpu_by.get_error()) != ErrorType.SUCCESS:
            raise PeerLostError(f"a peer is gone: NCCL says {error.name}")

    def _wait_for_host(self) -> None:
        """Wait, but not for a collective that gloo forgot: gloo misses an end while one begins."""
        was_over = False
        while not self._is_there():
            if was_over:
                raise PeerLostError("the connections of this world have ended")
            was_over = self._connections.are_cut or self._connections.are_left

    def _is_there(self) -> bool:
        try:
            self._work.wait(SLICE)
        except RuntimeError:
            if not self._work.is_completed():
                return False
            # It failed, or it ended just as the wait did: this wait tells which.
            self._work.wait(SLICE)
        return True


def keep_alive(backend: Any, works: list[Any]) -> None:  # noqa: ANN401 - torch's, untyped
    """Keep a group alive until its works have ended, even past the end of the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(backend))
    _KEPT.append((backend, works))


def free_ended() -> None:
    """Free the kept groups whose works have ended by now."""
    for kept in list(_KEPT):
        backend, works = kept
        if all(work.is_completed() for work in works):
            _KEPT.remove(kept)
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(backend))


def is_of_a_connection(error: RuntimeError) -> bool:
    """Whether an error means that a connection has ended, and not a mistake of the caller.

    For a message on a connection that ended earlier, gloo raises an error without a type.
    """
    return isinstance(error, distributed.DistError) or "gloo/transport/" in str(error)


def first_line(error: Exception) -> str:
    """Return the message without the stack that torch appends."""
    return str(error).partition("\n")[0]
