"""Shards: the files of a dataset, and the interface of the places that hold them."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Protocol


@dataclass(frozen=True)
class Shard:
    """A file of a dataset."""

    name: str
    """The path below the place, with slashes."""
    num_bytes: int
    version: str
    """A store's ETag, or a file's modification time: it changes with the content."""
    sha256: str = ""
    """The hash of its content, if a manifest has it."""

    def key(self, place: str, form: str = "") -> str:
        """Return the name under which a node keeps it, as it is or in another form.

        If its hash is known the name depends on the content only, not on the place.
        """
        identity = self.sha256 or f"{place}\n{self.name}\n{self.num_bytes}\n{self.version}"
        return sha256(f"{identity}\n{form}".encode()).hexdigest()


class DataPlace(Protocol):
    """A folder, or a part of an object store, that holds the shards of a dataset."""

    def where(self, name: str = "") -> str:
        """Return the path or address of the place, or of a file in it."""

    def shards(self) -> Sequence[Shard]:
        """List all files in the order of their names; hidden ones are left out."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if it does not exist."""

    def tail(self, shard: Shard, num_bytes: int) -> bytes:
        """Return the last bytes of a shard."""

    def path(self, shard: Shard) -> Path | None:
        """Return the path of a shard that is on this machine, or mounted; None: fetch it."""

    def fetch(self, shard: Shard, target: Path) -> None:
        """Copy a shard into a new file; raises OSError if it cannot be read, or has changed."""


def is_data(name: str) -> bool:
    """Whether a file may be a shard: neither it nor its folder is hidden, or begins with `_`."""
    return not any(part[:1] in {".", "_"} for part in PurePosixPath(name).parts)
