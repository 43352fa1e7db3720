"""One demo at a time, which `--down` can find: a file with the pid, locked while the demo runs."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_END_SECONDS = 60.0
_LOOK_SECONDS = 0.1


class ClaimError(Exception):
    """Another demo runs or does not end, or the file of this one cannot be written."""


@contextmanager
def claim(file: Path) -> Iterator[None]:
    """Claim this file for a demo; raises ClaimError if it is taken. The kernel frees the lock."""
    with _opened(file) as handle:
        if not _lock(handle):
            handle.seek(0)
            raise ClaimError(
                f"a demo runs already (pid {handle.read().strip()}): end it with `make demo-down`"
            )
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def end(file: Path, timeout_seconds: float = _END_SECONDS) -> bool:
    """End the demo of this file and wait until it has cleaned up; False if there is none."""
    try:
        handle = file.open()
    except FileNotFoundError:
        return False
    with handle:
        if _lock(handle):
            file.unlink(missing_ok=True)  # it was killed; its watchdog has cleaned up
            return False
        pid = int(handle.read())
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + timeout_seconds
        while not _lock(handle):
            if time.monotonic() > deadline:
                raise ClaimError(
                    f"the demo (pid {pid}) has not ended within {timeout_seconds:.0f} s: kill it; "
                    "a watchdog ends everything that it has started"
                )
            time.sleep(_LOOK_SECONDS)
    return True


def _opened(file: Path) -> IO[str]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.open("a+")
    except OSError as error:
        raise ClaimError(
            f"{file} cannot be written: {error.strerror}. Start it in a folder that you may write "
            "to"
        ) from None


def _lock(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
