"""A loader worker: it loads the microbatches it is asked for, and ends with its parent.

Workers are forked unless the program has chosen otherwise, so they begin as copies of a training
process, with its threads, sockets and signal handlers.
"""

import contextlib
import os
import pickle
import signal
import stat
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from spotrun_trainer.data.load import Load, Loaded, Request, add_note
from spotrun_trainer.data.workers.shared_memory import PackedMessage, pack, send
from spotrun_trainer.process.parent import die_with_parent

IGNORED = (signal.SIGTERM, signal.SIGINT)
"""Signals that go to the whole process group. If they killed a worker, the training process would
fail before it has saved."""


@dataclass(frozen=True)
class Ask:
    """A request with its ticket. Every ticket is answered, once."""

    ticket: int
    request: Request


@dataclass(frozen=True)
class Drop:
    """Tickets whose microbatches are no longer wanted."""

    tickets: tuple[int, ...]


@dataclass(frozen=True)
class Failure:
    """The dataset's exception."""

    error: Exception


@dataclass(frozen=True)
class Dropped:
    """The answer for a request that was dropped before it was loaded."""


Outcome = Loaded | Failure | Dropped
Answer = tuple[int, Outcome]


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Block signals, so that a process started in the block can first arrange to ignore them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class Place:
    """The number of this worker in its pool, and its parent."""

    number: int
    num_workers: int
    parent: int
    dies_with_thread: bool
    """Whether the worker ends with the thread that forked it: to Linux that thread is the parent,
    and only the main thread surely stays."""


def live(connection: Connection, load: Load, place: Place) -> None:
    """Be a loader worker until the training process says stop, or has ended."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)
    if place.dies_with_thread:
        die_with_parent()
    if os.getppid() != place.parent:  # it had ended before the line above
        return
    close_inherited_sockets(but=connection.fileno())
    introduce(place, load.dataset)
    torch.set_num_threads(1)  # or each worker would have a thread for each core
    with contextlib.suppress(EOFError, ConnectionError):  # the training process is gone
        answer(connection, load)


def introduce(place: Place, dataset: object) -> None:
    """Tell torch that this is a loader worker.

    Datasets ask for this with `get_worker_info()`; and default_collate then puts batches directly
    into shared memory, which saves a copy of each.
    """
    of_torch: Any = import_module("torch.utils.data._utils.worker")
    info = of_torch.WorkerInfo(
        id=place.number, num_workers=place.num_workers, seed=torch.initial_seed(), dataset=dataset
    )
    of_torch._worker_info = info  # noqa: SLF001 - there is no public way


def close_inherited_sockets(*, but: int) -> None:
    """Close sockets that came along with the fork.

    Peers learn that a training process has ended, or has left their group, when its sockets close:
    a copy in the worker would keep them open. Each descriptor becomes /dev/null, so that an
    inherited object that closes it later does not close another file with its number.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        with contextlib.suppress(OSError):  # the one that listed the directory
            if descriptor not in {0, 1, 2, but} and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def answer(connection: Connection, load: Load) -> None:
    """Load the requests in order, and look for new messages before each microbatch."""
    asked: dict[int, Request] = {}
    while True:
        while not asked or connection.poll():
            match connection.recv():
                case Ask(ticket, request):
                    asked[ticket] = request
                case Drop(tickets):
                    for ticket in tickets:
                        if asked.pop(ticket, None):
                            send(connection, pack((ticket, Dropped())))
                case None:
                    return
        ticket = next(iter(asked))
        send(connection, packed(ticket, outcome(load, asked.pop(ticket))))


def outcome(load: Load, request: Request) -> Outcome:
    try:
        return load(request)
    except Exception as error:
        return Failure(portable(error))


def packed(ticket: int, outcome: Outcome) -> PackedMessage:
    """Return the answer as bytes, with its tensors in shared memory."""
    try:
        return pack((ticket, outcome))
    except Exception as error:
        add_note(
            error,
            "A loader worker could not send a microbatch to the training process. The dataset's "
            "samples must be picklable, and /dev/shm must have room for two microbatches of each"
            " worker: in a pod, an emptyDir with `medium: Memory`. num_workers=0 needs neither.",
        )
        return pack((ticket, Failure(portable(error))))


def portable(error: Exception) -> Exception:
    """Return the error, with its traceback as a note, in a form that another process can raise."""
    text = "".join(traceback.format_exception(error)).strip()
    notes = [f"In the loader worker:\n{text}"]
    vars(error)["__notes__"] = notes
    try:
        copy: object = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:
        copy = None
    if type(copy) is type(error):
        return error
    name = type(error).__qualname__
    substitute = RuntimeError(f"{name}: {error}")
    vars(substitute)["__notes__"] = notes
    return substitute
