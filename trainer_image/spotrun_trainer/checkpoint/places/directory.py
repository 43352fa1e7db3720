"""A directory that holds checkpoints: local, or on a network file system.

It uses only what NFS supports too: exclusive creation, `link(2)`, replacing a *file* by renaming,
fsync of files and directories. A listing may be a second old, so a file that must be seen is opened
by its name. Symbolic links are not followed below the directory: somebody who can put files there
must not lead a training pod to other files.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from spotrun_trainer.checkpoint.format.names import Name, names_among
from spotrun_trainer.checkpoint.format.storage import (
    FIRST_MANIFEST,
    MARKER,
    SMALL_BYTES,
    FileFacts,
    OpenFile,
    Told,
    pieces,
)
from spotrun_trainer.checkpoint.places.folder_check import make_writable
from spotrun_trainer.checkpoint.places.folder_note import FolderNote
from spotrun_trainer.store.addresses import without_secrets
from spotrun_trainer.store.folder_sync import sync_folder

__all__ = ["MARKER", "SMALL_BYTES", "Place", "open_place"]

WRITE_BYTES = 1 << 20
"""A piece fits a core's cache, so that it is still in the cache when it is written after
hashing."""
SYNC_BYTES = 64 << 20

_OURS = re.compile(r"(rank-[0-9]{1,7}\.(safetensors|json)|COMPLETE)(\.[0-9]+\.part)?")
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def open_place(where: str | Path) -> Path:
    """Return the directory that a path or a file: address names; raises ValueError for others."""
    text = str(where)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Path(where)
    if scheme == "file" and rest.startswith("/"):
        return Path(rest)
    raise ValueError(
        f"checkpoints cannot be kept in {without_secrets(text)}: only paths, file:/// addresses of "
        "them, and places in object stores (s3://, gs://, az://)"
    )


def is_ours(file: str) -> bool:
    """Return whether a file in a checkpoint's folder is one that we write there."""
    return _OURS.fullmatch(file) is not None


class Place:
    """The files of checkpoints, below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[Name]:
        """All checkpoints, complete or not, oldest first; empty if the directory does not exist."""
        try:
            with os.scandir(self.root) as entries:
                folders = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        return names_among(folders)

    def path(self, name: Name, file: str = "") -> Path:
        """Return the path of a checkpoint, or of a file of it."""
        return self.root / str(name) / file

    def where(self, name: Name | None = None, file: str = "") -> str:
        """Return the path of the directory, of a checkpoint, or of a file of it."""
        return str(self.root if name is None else self.path(name, file))

    def check(self) -> None:
        """Make the directory, and check that files can be made in it."""
        make_writable(self.root)

    def files(self, name: Name) -> list[FileFacts]:
        """List the files of a checkpoint."""
        with os.scandir(self.path(name)) as entries:
            plain = [one for one in entries if one.is_file(follow_symlinks=False)]
            return [FileFacts(one.name, one.stat().st_size, one.stat().st_mtime) for one in plain]

    def stored(self) -> None:
        """Return None: a folder is not billed by its content."""

    def make(self, name: Name) -> None:
        """Make the checkpoint's directory, durably, unless it exists."""
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.path(name)
        with suppress(FileExistsError):
            path.mkdir()
            sync_folder(self.root)
        if path.is_symlink():
            raise OSError(errno.ELOOP, "is a symbolic link", str(path))

    def create(self, name: Name, file: str) -> int:
        """Return the descriptor of a new file; a file from an earlier try is removed."""
        path = self.path(name, file)
        path.unlink(missing_ok=True)
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)

    def create_data(self, name: Name, file: str, _size: int) -> int:
        """Return the descriptor of a new file of this size."""
        return self.create(name, file)

    def open(self, name: Name, file: str) -> int:
        """Return a descriptor for reading; raises OSError for anything but a regular file."""
        path = self.path(name, file)
        if self.path(name).is_symlink():
            raise OSError(errno.ELOOP, "is below a symbolic link", str(path))
        # Non-blocking: opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        return descriptor

    @contextmanager
    def opened(
        self, name: Name, file: str, _reads: Sequence[tuple[int, int]] = ()
    ) -> Iterator[OpenFile]:
        """Open a file to be read."""
        descriptor = self.open(name, file)
        try:
            yield OpenDescriptor(descriptor)
        finally:
            os.close(descriptor)

    def begin_reading(self, name: Name, file: str, size: int, most_bytes: int) -> None:
        """Do nothing: a folder's files are read by the operating system, which has its cache."""

    def end_begun(self) -> int:
        """Return 0."""
        return 0

    def read(self, name: Name, file: str) -> bytes:
        """A small file; raises OSError if it does not exist, or is not small."""
        with os.fdopen(self.open(name, file), "rb") as stream:
            content = stream.read(SMALL_BYTES + 1)
        if len(content) > SMALL_BYTES:
            raise OSError(errno.EFBIG, f"has more than {SMALL_BYTES >> 20} MiB", file)
        return content

    def write_data(self, name: Name, file: str, content: Sequence[memoryview], told: Told) -> None:
        """Write a large file, and sync it during the write.

        A sync at the end would find all of it in the page cache, where it would also displace the
        training data.
        """
        descriptor, unsynced = self.create_data(name, file, sum(map(len, content))), 0
        try:
            for piece in pieces(content, WRITE_BYTES):
                told(piece)
                _write_all(descriptor, piece)
                unsynced += len(piece)
                if unsynced >= SYNC_BYTES:
                    os.fdatasync(descriptor)
                    unsynced = 0
            os.fsync(descriptor)
        except OSError:
            self.remove_file(name, file)  # free the space on a full disk
            raise
        finally:
            os.close(descriptor)

    def write(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small file durably and atomically; no two ranks write it at the same time."""
        part = self._write_part(name, file, content, rank)
        part.replace(self.path(name, file))
        sync_folder(self.path(name))

    def write_once(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small file unless it exists: of several writers the first one wins."""
        part = self._write_part(name, file, content, rank)
        try:
            with suppress(FileExistsError):
                self._link(name, part, file)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(self.path(name))

    def remove_file(self, name: Name, file: str) -> None:
        """Remove a file, if it exists."""
        with suppress(FileNotFoundError):
            self.path(name, file).unlink()

    def remove(self, name: Name) -> None:
        """Remove a checkpoint, its marker first, so that a partial one is never marked complete.

        Files that are not ours stay, and then the directory stays as well.
        """
        for first in (MARKER, FIRST_MANIFEST):
            self.remove_file(name, first)
        with suppress(FileNotFoundError), os.scandir(self.path(name)) as entries:
            for entry in [one.name for one in entries if is_ours(one.name)]:
                self.remove_file(name, entry)
        with suppress(OSError):  # on NFS a file that is open elsewhere stays, under another name
            self.path(name).rmdir()

    def note(self, file: str) -> FolderNote:
        """Return a file beside the checkpoints."""
        return FolderNote(self.root / file)

    def _write_part(self, name: Name, file: str, content: bytes, rank: int) -> Path:
        part = f"{file}.{rank}.part"
        with os.fdopen(self.create(name, part), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        return self.path(name, part)

    def _link(self, name: Name, part: Path, file: str) -> None:
        try:
            os.link(part, self.path(name, file), follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A file system without links (FUSE, SMB): readers find a partial file incomplete.
            with self.path(name, file).open("xb") as stream:
                stream.write(part.read_bytes())
                stream.flush()
                os.fsync(stream.fileno())


class OpenDescriptor:
    """A file that is being read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def size(self) -> int:
        """Return its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the target from that byte on."""
        while target:
            if not (count := os.preadv(self._descriptor, [target], offset)):
                raise ValueError("it ended early")
            target, offset = target[count:], offset + count


def _write_all(descriptor: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]
