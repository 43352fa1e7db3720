"""A small file in a folder, replaced as a whole, and read as untrusted content."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

_MOST_BYTES = 4096


class FolderNote:
    """A small file of a folder; a reader never finds half of it."""

    beat_seconds = 2.0

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """Return its content, at most 4 kB, or None; for another user's file, the time it was made.

        Raises OSError if it cannot be read.
        """
        try:
            # Non-blocking: opening a named pipe would wait for a writer.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as stream:
                return stream.read(_MOST_BYTES)
        except PermissionError:
            return str(self._path.stat(follow_symlinks=False).st_mtime_ns).encode()
        except FileNotFoundError:
            return None

    def create(self, content: bytes) -> bool:
        """Write it unless it exists; returns False if it does."""
        part = self._written(content)
        try:
            os.link(part, self._path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            self._move(part)
        finally:
            part.unlink(missing_ok=True)
        return True

    def replace(self, content: bytes) -> None:
        """Write it, or replace it."""
        self._move(self._written(content))

    def remove(self) -> None:
        """Remove it, if it exists."""
        self._path.unlink(missing_ok=True)

    def _written(self, content: bytes) -> Path:
        part = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        try:
            with part.open("xb") as stream:
                stream.write(content)
        except OSError:
            _discard(part)
            raise
        return part

    def _move(self, part: Path) -> None:
        try:
            part.replace(self._path)
        except OSError:  # e.g. another user's file in a sticky folder
            _discard(part)
            raise


def _discard(part: Path) -> None:
    with suppress(OSError):
        part.unlink()
