"""The data files of a checkpoint, opened to be read: errors name the file that they are in."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError, UnreadableCheckpointError
from spotrun_trainer.checkpoint.format.directory import Place
from spotrun_trainer.checkpoint.format.manifest import Manifest, data_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.storage_retries import is_lasting, reading

CHUNK_BYTES = 4 << 20


class Stream:
    """A file read from its start, hashed as it goes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._digest = hashlib.sha256()

    def skip(self, size: int) -> None:
        """Read so many bytes."""
        chunk = bytearray(min(size, CHUNK_BYTES))
        for start in range(0, size, CHUNK_BYTES):
            self.into(memoryview(chunk)[: size - start])

    def into(self, target: memoryview) -> None:
        """Read as many bytes as the target has."""
        for start in range(0, len(target), CHUNK_BYTES):
            chunk = left = target[start : start + CHUNK_BYTES]
            while left:
                if not (count := os.readv(self._descriptor, [left])):
                    raise ValueError("it ended early")
                left = left[count:]
            self._digest.update(chunk)

    def hexdigest(self) -> str:
        """Return the hash of what was read."""
        return self._digest.hexdigest()


@contextmanager
def opened(place: Place, name: Name, manifest: Manifest) -> Iterator[int]:
    """Open the data file of a manifest."""
    descriptor = place.open(name, data_file(manifest.rank))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def blaming(place: Place, name: Name, file: str) -> Iterator[None]:
    """Turn an error in a file into one that names the file."""
    path = place.path(name, file)
    try:
        with reading(path):
            yield
    except ValueError as error:
        raise damaged(path, str(error)) from error
    except UnreadableCheckpointError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and is_lasting(cause):
            raise damaged(path, str(cause.strerror)) from cause
        raise


def damaged(path: Path, why: str) -> DamagedCheckpointError:
    """Return the error of a damaged file."""
    return DamagedCheckpointError(f"{path} is damaged: {why}; load an older checkpoint")
