"""Running a function in one process per worker before the others, without collectives."""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.process.rng import key_of

T = TypeVar("T")

_LOOK_SECONDS = 0.05


def first_of_a_worker(rank_info: RankInfo, number: int, prepare: Callable[[], T]) -> T:
    """Call `prepare` in all processes of a worker, in one of them before the others.

    `number` distinguishes several such calls of one program.
    """
    if rank_info.local_size == 1:
        return prepare()
    directory = rank_info.directory or Path(tempfile.gettempdir())
    world = key_of(*f"{rank_info.secret}/{rank_info.world_number}/{rank_info.store}".encode())
    return run_first(directory / f"spotrun-{world:x}-{number}", rank_info.local_size, prepare)


def run_first(file: Path, count: int, prepare: Callable[[], T]) -> T:
    """Call `prepare` in all `count` processes that share `file`, in one before the others.

    If the first fails or is killed, the next one becomes the first. The file lists the processes
    that have arrived, and the last one removes it. If a listed process is gone, the file was left
    by an earlier start that was not completed.
    """
    with _locked(file) as lock:
        arrived = lock.read().split()
        if not all(map(_is_alive, arrived)):
            lock.truncate(0)
            arrived = []
        if not arrived:
            result = prepare()
        lock.write(f"{os.getpid()}\n")
        if len(arrived) + 1 == count:
            file.unlink()
    return prepare() if arrived else result


def _is_alive(pid: str) -> bool:
    return Path("/proc", pid).exists()


@contextmanager
def _locked(file: Path) -> Iterator[IO[str]]:
    with file.open("a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_SECONDS)
            else:
                break
        lock.seek(0)
        yield lock
