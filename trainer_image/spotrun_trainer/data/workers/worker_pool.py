"""The training process's loader workers: started, asked, watched and ended."""

import atexit
import contextlib
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import cast

from spotrun_trainer.data.load import Load, Request, add_note
from spotrun_trainer.data.workers.shared_memory import receive
from spotrun_trainer.data.workers.worker_process import Answer, Ask, Drop, Place, live, signals_held

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - its place on Linux
CLOSE_SECONDS = 2.0
"""The time for a worker to finish its current sample; after that it is killed."""
END_SECONDS = 5.0
"""The time for a worker to end after its connection has ended; it may write a core dump."""

_open: "weakref.WeakSet[Workers]" = weakref.WeakSet()


class LoaderWorkerLostError(RuntimeError):
    """A loader worker ended without being asked to."""


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    asked: set[int] = field(default_factory=set)


class Workers:
    """Processes that load microbatches with `load`."""

    def __init__(self, load: Load, count: int) -> None:
        self._owner = os.getpid()
        self._last_ticket = 0
        self._workers: list[_Worker] = []
        _open.add(self)
        try:
            for number in range(count):
                self._workers.append(_start(load, number, count))
        except BaseException:
            self.close()
            raise

    def ask(self, request: Request) -> int:
        """Let the worker with the fewest requests load a microbatch; return the ticket."""
        worker = min(self._workers, key=lambda worker: len(worker.asked))
        self._last_ticket += 1
        worker.asked.add(self._last_ticket)
        self._send(worker, Ask(self._last_ticket, request))
        return self._last_ticket

    def drop(self, tickets: Iterable[int]) -> None:
        """Withdraw requests that the workers have not begun; each ticket is still answered."""
        dropped = set(tickets)
        for worker in self._workers:
            if theirs := worker.asked & dropped:
                self._send(worker, Drop(tuple(theirs)))

    def answers(self, *, timeout_seconds: float | None) -> list[Answer]:
        """Return one answer of each worker that has one; wait for the first answer if necessary."""
        by_connection: dict[object, _Worker] = {
            worker.connection: worker for worker in self._workers
        }
        connections = [worker.connection for worker in self._workers]
        ready = wait(connections, timeout_seconds)
        return [self._receive(by_connection[connection]) for connection in ready]

    def close(self) -> None:
        """End the workers, even while they load a sample."""
        if os.getpid() != self._owner:  # a fork of the training process that ends
            return
        for worker in self._workers:
            with contextlib.suppress(OSError):  # it is gone already
                worker.connection.send(None)
            worker.connection.close()
        deadline = time.monotonic() + CLOSE_SECONDS
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            worker.process.kill()
            worker.process.join()
            worker.process.close()
        self._workers.clear()

    def _send(self, worker: _Worker, message: Ask | Drop) -> None:
        try:
            worker.connection.send(message)
        except OSError as error:
            raise self._lost(worker) from error

    def _receive(self, worker: _Worker) -> Answer:
        try:
            answer = cast("Answer", receive(worker.connection))
        except (EOFError, ConnectionError) as error:
            raise self._lost(worker) from error
        except OSError as error:
            soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            add_note(
                error,
                "A microbatch could not be received from a loader worker. Each tensor of a "
                f"microbatch that you keep takes an open file, and {soft_limit} are allowed: keep "
                "copies (tensor.clone()), or raise the limit (ulimit -n).",
            )
            raise
        worker.asked.discard(answer[0])
        return answer

    def _lost(self, worker: _Worker) -> LoaderWorkerLostError:
        worker.process.join(END_SECONDS)
        return LoaderWorkerLostError(
            f"{worker.process.name} (process {worker.process.pid}) {ended_how(worker.process)}"
        )


def _start(load: Load, number: int, count: int) -> _Worker:
    context = _context()
    if isinstance(context, SpawnContext):
        resource_tracker.ensure_running()  # starting it later would unblock signals
    is_main_thread = threading.current_thread() is threading.main_thread()
    place = Place(number, count, parent=os.getpid(), dies_with_thread=is_main_thread)
    ours, theirs = context.Pipe()
    process = context.Process(
        target=live,
        args=(theirs, load, place),
        name=f"loader-{number}",
        daemon=True,
    )
    try:
        with signals_held(), warnings.catch_warnings():
            # Python 3.12 warns about forks while threads run. A worker uses no lock that they may
            # hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        ours.close()
        raise ValueError(
            f"the dataset cannot be sent to a loader worker: {error}. The program called "
            "set_start_method(), so processes do not start as forks, and the dataset and the "
            "collate function must be picklable: no lambdas, no open files, and classes at the "
            "top level of a module. num_workers=0 loads in the training process."
        ) from error
    finally:
        theirs.close()
    return _Worker(process, ours)


def _context() -> ForkContext | SpawnContext:
    """Fork, as DataLoader does, unless the program has chosen another way.

    With forks a training script needs no `if __name__ == "__main__":`, and its datasets need no
    pickling. A fork server cannot be used: the SIGTERM that its children must survive would kill
    it.
    """
    if multiprocessing.get_start_method(allow_none=True) in {None, "fork"}:
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def ended_how(process: BaseProcess) -> str:
    """Return a sentence about how a worker ended."""
    match process.exitcode:
        case code if code == -signal.SIGKILL:
            return (
                "was killed, most likely because memory ran out."
                " Try fewer num_workers, a smaller microbatch, or a larger memory limit."
            )
        case code if code == -signal.SIGBUS:
            return (
                f"was ended by a bus error, which happens when {SHARED_MEMORY} is full "
                f"({_shared_memory()})."
                f" Give the pod an emptyDir with `medium: Memory` at {SHARED_MEMORY}, or try"
                " fewer num_workers, or a smaller microbatch."
            )
        case None:
            return "has closed its connection: the dataset closes files that it did not open."
        case code if code < 0:
            return (
                f"was ended by {signal.Signals(-code).name}, in native code that the dataset uses."
                " With num_workers=0 it fails in the training process, where a debugger sees it."
            )
        case code:
            return (
                f"ended with exit code {code}. Its output says why; if it was spawned, the"
                ' script must begin its work below `if __name__ == "__main__":`.'
            )


def _shared_memory() -> str:
    try:
        space = shutil.disk_usage(SHARED_MEMORY)
    except OSError:
        return "there is none"
    return f"{space.used >> 20} of {space.total >> 20} MB are used now"


def _close_all() -> None:
    for workers in list(_open):
        workers.close()


# Registered after multiprocessing's own handler, so it runs before that one, which would send the
# workers a SIGTERM that they ignore, and wait for them.
atexit.register(_close_all)
