"""Single requests for small objects."""

import errno
from collections.abc import Sequence
from contextlib import suppress

from obstore.store import ObjectStore

from spotrun_trainer.checkpoint.format.storage import SMALL_BYTES
from spotrun_trainer.checkpoint.places import requests
from spotrun_trainer.store.again import again
from spotrun_trainer.store.store_errors import as_os_error


class ObjectNote:
    """A small object, replaced as a whole; requests end soon, because the note is written again."""

    beat_seconds = 6.0

    def __init__(self, store: ObjectStore, path: str, where: str) -> None:
        self._store = store
        self._path = path
        self._where = where

    def read(self) -> bytes | None:
        """Return its content; None if it does not exist."""
        try:
            return read(self._store, self._path, self._where)
        except FileNotFoundError:
            return None

    def create(self, content: bytes) -> bool:
        """Write it unless it exists; returns False if it does."""
        return create(self._store, self._path, self._where, content)

    def replace(self, content: bytes) -> None:
        """Write it, or replace it."""
        with as_os_error(self._where):
            requests.put(self._store, self._path, content, use_multipart=False)

    def remove(self) -> None:
        """Remove it, if it exists."""
        remove(self._store, [self._path], self._where)


def read(store: ObjectStore, path: str, where: str) -> bytes:
    """Return the content of a small object."""

    def get() -> bytes:
        answer = requests.get(store, path)
        if answer.meta["size"] > SMALL_BYTES:
            raise OSError(errno.EFBIG, f"has more than {SMALL_BYTES >> 20} MiB", where)
        return bytes(answer.bytes())

    return again(get, where)


def create(store: ObjectStore, path: str, where: str, content: bytes) -> bool:
    """Write a small object unless it exists; returns False if another one does.

    The existing object may be our own, written by a request whose answer was lost. Another one may
    have been removed meanwhile.
    """
    try:
        again(lambda: requests.put(store, path, content, mode="create"), where)
    except FileExistsError:
        with suppress(FileNotFoundError):
            return read(store, path, where) == content
        return False
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return _create_without_condition(store, path, where, content)
    return True


def _create_without_condition(store: ObjectStore, path: str, where: str, content: bytes) -> bool:
    with as_os_error(where):
        with suppress(FileNotFoundError):
            requests.head(store, path)
            return False
        requests.put(store, path, content, use_multipart=False)
    return True


def remove(store: ObjectStore, paths: Sequence[str], where: str) -> None:
    """Remove the objects that exist."""
    if not paths:
        return
    try:
        again(lambda: requests.delete(store, paths), where)
    except FileNotFoundError:
        # S3 ignores a missing object. Google's store and Azure's raise an error, and then the other
        # objects may still exist.
        for path in paths if len(paths) > 1 else ():
            remove(store, [path], where)
