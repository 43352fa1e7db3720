"""Locks between the processes of a node: a dead process holds none."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path

_FILES = 4096
"""Lock files stay, because removing them would be a race; so their number is limited."""


class Locks:
    """Locks by name, in a folder of this machine's disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def held(self, name: str) -> AbstractContextManager[None]:
        """Wait for the lock of a name, and hold it; two names may share one.

        So a process that holds a lock must not wait for the lock of another name.
        """
        return held(self._path(name))

    def held_if_free(self, name: str) -> AbstractContextManager[bool]:
        """Hold the lock of a name, unless another has it; yields whether it is held."""
        return held_if_free(self._path(name))

    def _path(self, name: str) -> Path:
        number = int(sha256(name.encode()).hexdigest(), 16) % _FILES
        return self._folder / f"{number:03x}"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Wait for the lock that is a file, and hold it."""
    descriptor = opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        _release(descriptor)


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock that is a file, unless another has it; yields whether it is held."""
    descriptor, is_held = opened(path), True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_held = False
        yield is_held
    finally:
        _release(descriptor)


def opened(path: Path) -> int:
    """Return the descriptor of a file that is a lock."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _release(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # a fork may have a copy of the descriptor
    os.close(descriptor)
