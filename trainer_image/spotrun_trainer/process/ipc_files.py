"""The two files in SPOTRUN_DIR by which the agent and the training processes of a worker talk.

`world.json` (agent to trainer) is the operator's answer as it came: the worker's place in the world
and the orders, in one file, so that they change together. `progress.json` (trainer to agent) is a
`TrainerProgress` of a worker's first process, and any program can write it:

    echo '{"worldNumber": 3, "step": 120, "total": 1000}' > $SPOTRUN_DIR/.p
    mv $SPOTRUN_DIR/.p $SPOTRUN_DIR/progress.json

A script that saves whenever `orders.checkpoint` in world.json has grown says `"savesOnOrder": true`
from its start: the operator orders a checkpoint before a change that was planned, and waits for it.
It may say in `"checkpointOrders"` which number it had read when it began to save `"checkpoint"`:
then a checkpoint that began before an order does not count as the ordered one.
Every other script gets a SIGTERM, and has the pod's grace period to save.

Where a worker has several processes under `Run`, the others write `progress-R.json`, and the first
says how many there are: for the agent the worker is as far as the last of them.

All are replaced by renaming, so a reader sees a whole file or the one before. Standard library
only: this is imported before torch is.
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from spotrun import wire
from spotrun_trainer.process.progress_report import (
    FILE_BYTES,
    TrainerProgress,
    of_worker,
    parse_progress,
    progress_content,
)

log = logging.getLogger(__name__)

WORLD_FILE = "world.json"
PROGRESS_FILE = "progress.json"

_Content = TypeVar("_Content")


class WorldFile:
    """Reads world.json; a read costs one stat as long as nothing changes."""

    def __init__(self, directory: Path | str) -> None:
        self._file = _Watched(Path(directory) / WORLD_FILE, wire.read_answer)

    def read(self) -> wire.Answer | None:
        """The newest answer; None before there is one."""
        return self._file.read()


class ProgressFile:
    """Reads progress.json; a read costs one stat as long as nothing changes, and never raises."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        self._files: list[_Watched[TrainerProgress]] = []  # by the process's number in its worker
        self._refused = ""

    def read(self) -> TrainerProgress:
        """Return the last report; the defaults if there is none, or none that can be parsed."""
        try:
            first = self._read(0)
            return of_worker(first, [self._read(rank) for rank in range(1, first.processes)])
        except (OSError, ValueError) as error:
            if str(error) != self._refused:  # once per error, not at every step
                self._refused = str(error)
                log.warning("%s cannot be parsed and is ignored: %s", PROGRESS_FILE, error)
            return TrainerProgress()

    def _read(self, local_rank: int) -> TrainerProgress:
        while len(self._files) <= local_rank:
            path = self._directory / progress_file(len(self._files))
            self._files.append(_Watched(path, parse_progress))
        return self._files[local_rank].read() or TrainerProgress()


def progress_file(local_rank: int) -> str:
    """Return the file in which a process of a worker reports its progress."""
    return f"progress-{local_rank}.json" if local_rank else PROGRESS_FILE


def write_world(directory: Path | str, answer: wire.Answer) -> None:
    """Write an answer into the trainer's file."""
    _replace(Path(directory) / WORLD_FILE, wire.write_answer(answer))


def write_progress(directory: Path | str, progress: TrainerProgress, local_rank: int = 0) -> None:
    """Write a report for the agent; default values are left out."""
    _replace(Path(directory) / progress_file(local_rank), progress_content(progress))


def read_progress(directory: Path | str) -> TrainerProgress:
    """Return the trainer's last report; for a single read, where `ProgressFile` is for many."""
    return ProgressFile(directory).read()


class _Watched(Generic[_Content]):
    def __init__(self, path: Path, parse: Callable[[bytes], _Content]) -> None:
        self._path = path
        self._parse = parse
        self._seen: tuple[int, int, int] | None = None
        self._content: _Content | None = None

    def read(self) -> _Content | None:
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return self._content
            with self._path.open("rb") as file:
                body = file.read(FILE_BYTES + 1)
        except FileNotFoundError:
            self._seen = self._content = None
            return None
        # First, so that a file that cannot be parsed is not read again and again.
        self._seen, self._content = seen, None
        self._content = self._parse(body)
        return self._content


def _replace(path: Path, content: bytes) -> None:
    # In the same directory, or it would not be atomic; one per thread, for several may write.
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    draft.write_bytes(content)
    draft.replace(path)
