"""The data files of a checkpoint, opened for reading: errors name the file."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError, UnreadableCheckpointError
from spotrun_trainer.checkpoint.format.digests import DIGESTS
from spotrun_trainer.checkpoint.format.manifest import Manifest, data_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import OpenFile, Storage
from spotrun_trainer.checkpoint.storage_retries import is_lasting, reading

CHUNK_BYTES = 4 << 20


class Stream:
    """A file read in order, hashed as it goes."""

    def __init__(self, file: OpenFile, hashed_by: str, start: int = 0) -> None:
        self._file = file
        self._offset = start
        self._digest = DIGESTS[hashed_by]()

    def skip(self, size: int) -> None:
        """Read `size` bytes and drop them."""
        chunk = bytearray(min(size, CHUNK_BYTES))
        for start in range(0, size, CHUNK_BYTES):
            self.into(memoryview(chunk)[: size - start])

    def into(self, target: memoryview) -> None:
        """Fill the target."""
        for start in range(0, len(target), CHUNK_BYTES):
            chunk = target[start : start + CHUNK_BYTES]
            self._file.read_into(self._offset, chunk)
            self._offset += len(chunk)
            self._digest.update(chunk)

    def hexdigest(self) -> str:
        """Return the hash of what was read."""
        return self._digest.hexdigest()


def opened(
    place: Storage, name: Name, manifest: Manifest, reads: Sequence[tuple[int, int]] = ()
) -> AbstractContextManager[OpenFile]:
    """Open the data file of a manifest; `reads` are the ranges to read; default: all."""
    return place.opened(name, data_file(manifest.rank), reads or [(0, manifest.file_bytes)])


@contextmanager
def blaming(place: Storage, name: Name, file: str) -> Iterator[None]:
    """Convert an error in a file into one that names the file."""
    path = place.where(name, file)
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


def damaged(path: str, why: str) -> DamagedCheckpointError:
    """Return the error of a damaged file."""
    return DamagedCheckpointError(f"{path} is damaged: {why}; load an older checkpoint")
