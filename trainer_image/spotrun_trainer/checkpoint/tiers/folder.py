"""A worker's folder of the local tier: parts of its own processes, and copies of a neighbour's."""

import errno
import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from typing_extensions import override

from spotrun_trainer.checkpoint.format.manifest import (
    data_file,
    manifest_file,
    read_manifest,
    sha256_of,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import FileFacts
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.checkpoint.tiers.newest import Held
from spotrun_trainer.checkpoint.tiers.settings import Settings
from spotrun_trainer.telemetry.container_usage import memory_left

SPARE_BYTES = 256 << 20
"""Memory that is left for the training, whose use goes up and down."""


class Folder(Place):
    """The files of a worker's tier; several processes of the worker, and its agent, write there."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.folder)
        self._limit_bytes = settings.limit_bytes
        self._is_memory = settings.is_memory

    @override
    def files(self, name: Name) -> list[FileFacts]:
        """List the files of a checkpoint; none if another process is deleting it at this moment."""
        try:
            return super().files(name)
        except FileNotFoundError:
            return []

    def held(self) -> list[Held]:
        """List the parts that are complete by their lengths."""
        return [
            held
            for name in self.names()
            for file in sorted(one.name for one in self.files(name))
            if file.endswith(".json") and (held := self._held(name, file)) is not None
        ]

    def keep(self, names: Collection[Name]) -> None:
        """Delete all checkpoints but these."""
        for name in self.names():
            if name not in names:
                self.remove(name)

    def check_room(self, size: int) -> None:
        """Raise OSError, which says what is used and missing, if `size` bytes do not fit."""
        used = sum(file.bytes for name in self.names() for file in self.files(name))
        if self._limit_bytes is not None and used + size > self._limit_bytes:
            raise _no_room(self.root, size, f"{_mib(used)} of {_mib(self._limit_bytes)} are used")
        there = os.statvfs(self.root)
        if size > (free := there.f_bavail * there.f_frsize):
            raise _no_room(self.root, size, f"{_mib(free)} are free")
        if self._is_memory and size + SPARE_BYTES > (left := memory_left(os.getpid())):
            raise _no_room(self.root, size, f"{_mib(left)} are left of the container's memory")

    @override
    def create_data(self, name: Name, file: str, size: int) -> int:
        """Return the descriptor of a new file whose space is reserved already.

        Several processes of a worker, and its agent, write at the same time: they check for space
        and reserve it one after the other, or all would count the same space.
        """
        with self._alone():
            self.check_room(size)
            descriptor = self.create(name, file)
            try:
                if size:
                    os.posix_fallocate(descriptor, 0, size)
            except OSError:
                os.close(descriptor)
                self.remove_file(name, file)
                raise
        return descriptor

    @contextmanager
    def _alone(self) -> Iterator[None]:
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _held(self, name: Name, file: str) -> Held | None:
        try:
            text = self.read(name, file)
            manifest = read_manifest(text)
            length = self.path(name, data_file(manifest.rank)).stat().st_size
        except (OSError, ValueError):  # not whole
            return None
        if length != manifest.file_bytes or file != manifest_file(manifest.rank):
            return None
        return Held(name, manifest.attempt, manifest.rank, manifest.size, sha256_of(text))


def _no_room(root: Path, size: int, why: str) -> OSError:
    return OSError(
        errno.ENOSPC,
        f"a part of {_mib(size)} does not fit, {why}: a worker needs four times the size of its "
        "own part, for two steps of its own and two of a neighbour; raise "
        "checkpoint.local.sizeLimit, and "
        "with medium Memory the container's memory",
        str(root),
    )


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"
