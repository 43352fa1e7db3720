"""Data in a folder: local, or on a network file system."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from spotrun_trainer.data.places.shards import Shard, is_data


class Folder:
    """The files below a folder, or a single file."""

    def __init__(self, path: Path) -> None:
        is_file = path.is_file()
        if not is_file and not path.is_dir():
            raise ValueError(
                f"{path} is neither a folder with data nor a file: check the path, and that its "
                "volume is mounted in this pod"
            )
        self._root = path.absolute().parent if is_file else path.absolute()
        self._only = path.name if is_file else None

    def where(self, name: str = "") -> str:
        """Return the path of the folder, or of a file of it."""
        return str(self._root / (name or self._only or ""))

    def shards(self) -> Sequence[Shard]:
        """List all files, also those of inner folders."""
        found = [_shard(self._root, name) for name in self._names() if is_data(name)]
        return sorted(found, key=lambda one: one.name)

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def tail(self, shard: Shard, num_bytes: int) -> bytes:
        """Return the last bytes of a shard."""
        with self.path(shard).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - num_bytes))
            return file.read(num_bytes)

    def path(self, shard: Shard) -> Path:
        """Return the path of a shard."""
        return self._root / shard.name

    def fetch(self, shard: Shard, target: Path) -> None:
        """Copy a shard."""
        shutil.copyfile(self.path(shard), target)

    def _names(self) -> Iterator[str]:
        if self._only:
            yield self._only
            return
        for folder, _, files in os.walk(self._root):
            yield from (
                (Path(folder) / file).relative_to(self._root).as_posix() for file in sorted(files)
            )


def _shard(root: Path, name: str) -> Shard:
    facts = (root / name).stat()
    return Shard(name, facts.st_size, f"{facts.st_mtime_ns}-{facts.st_ino}")
