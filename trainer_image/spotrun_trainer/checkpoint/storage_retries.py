"""Retries for reads of checkpoints: a file server that is unavailable for a moment comes back."""

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from spotrun_trainer.checkpoint.errors import UnreadableCheckpointError

READ_SECONDS = 60.0
"""The time that a new mount, or a failover of its server, takes."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
_LASTING = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EFBIG}
"""The errors that mean that the file is gone, or differs from what was written."""

T = TypeVar("T")


def is_lasting(error: OSError) -> bool:
    """Whether the error means that this is not the file that was written."""
    return error.errno in _LASTING


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise UnreadableCheckpointError, naming the file, if something cannot be read."""
    try:
        yield
    except OSError as error:
        raise UnreadableCheckpointError(
            f"{error.filename or path} cannot be read: {error.strerror}; nothing was changed: make "
            "it readable for this user, and start again"
        ) from error


def patiently(read: Callable[[], T]) -> T:
    """Return the result of `read`, retried for a minute if something cannot be read."""
    until, pause_seconds = None, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return read()
        except UnreadableCheckpointError:
            # The minute begins here, because a read itself may take longer.
            until = until or time.monotonic() + READ_SECONDS
            if time.monotonic() > until:
                raise
        time.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
