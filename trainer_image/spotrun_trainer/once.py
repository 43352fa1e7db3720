"""One process per worker goes first; the others follow when it is done. No collective."""

import fcntl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from spotrun_trainer.rng import key_of
from spotrun_trainer.seat import Seat

T = TypeVar("T")

_LOOK_SECONDS = 0.05
_DONE = "done"


def first_of_a_worker(seat: Seat, number: int, prepare: Callable[[], T]) -> T:
    """Call `prepare` in all processes of a worker, in one of them before the others.

    `number` tells several such calls of one program apart.
    """
    if seat.local_size == 1:
        return prepare()
    directory = seat.directory or Path(tempfile.gettempdir())
    world = key_of(*f"{seat.secret}/{seat.generation}/{seat.store}".encode())
    return run_first(directory / f"spotrun-{world:x}-{number}", prepare)


def run_first(file: Path, prepare: Callable[[], T]) -> T:
    """Call `prepare` in all processes that share `file`, but in one of them before the others.

    If the first fails or is killed, the next is the first. The file stays, to say that it is done.
    """
    with _locked(file) as is_done:
        if not is_done:
            result = prepare()
            file.write_text(_DONE)
            return result
    return prepare()


@contextmanager
def _locked(file: Path) -> Iterator[bool]:
    with file.open("a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_SECONDS)
            else:
                break
        yield file.read_text() == _DONE
