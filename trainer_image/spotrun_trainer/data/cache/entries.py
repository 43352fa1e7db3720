"""Files of a cache, each with a note of its expected content: found whole, put by rename, removed.

A file is complete before it has its name. After that only a crash of the machine, or somebody who
writes into it, can damage it. So its hash is compared at the first use after each boot, and
whenever its modification time differs; its length each time.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

_PIECE_BYTES = 4 << 20
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Note:
    """The content of a file when it was put here, and the state in which it was last confirmed."""

    num_bytes: int
    sha256: str
    boot: str
    modified_ns: int


@dataclass(frozen=True)
class Entry:
    """A file of the cache, as a listing shows it."""

    key: str
    num_bytes: int
    used_ns: int


class Entries:
    """The files below a folder, and their notes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, key: str) -> BinaryIO | None:
        """Open a file that is known to be whole; None if it does not exist, or may have changed.

        An open file can be read to its end, even if it is removed meanwhile.
        """
        file, note = self._opened(key)
        if file is None or note is None:
            return None
        facts = os.fstat(file.fileno())
        is_known = (note.boot, note.modified_ns) == (boot(), facts.st_mtime_ns)
        if not is_known or facts.st_size != note.num_bytes:
            file.close()
            return None
        with suppress(OSError):  # another user's file: it then seems older than it is
            os.utime(self._note(key))
        return file

    def confirm(self, key: str) -> BinaryIO | None:
        """Compare a file with its hash, and open it; remove it if it differs."""
        file, note = self._opened(key)
        if file is not None and note is not None and hash_of(file) == note.sha256:
            facts = os.fstat(file.fileno())
            self._write(key, Note(note.num_bytes, note.sha256, boot(), facts.st_mtime_ns))
            return file
        if file is not None:
            file.close()
        self.remove(key)
        return None

    def put(self, key: str, made: Path, digest: str) -> BinaryIO:
        """Give a complete and durable file its name; returns it, opened."""
        file = made.open("rb")
        facts = os.fstat(file.fileno())
        self._path(key).parent.mkdir(exist_ok=True)
        self._write(key, Note(facts.st_size, digest, boot(), facts.st_mtime_ns))
        made.replace(self._path(key))
        return file

    def remove(self, key: str) -> None:
        """Remove a file, if it exists; readers that have it open can still read it."""
        # The note last: a file without a note is not listed, and would stay if this process is
        # killed.
        for path in (self._path(key), self._note(key)):
            with suppress(FileNotFoundError):
                path.unlink()

    def all(self) -> list[Entry]:
        """List the files, the least recently used first."""
        found = list[Entry]()
        for note in self._root.glob("??/*.json"):
            with suppress(OSError):  # removed meanwhile
                file = note.with_suffix("")
                size = file.stat().st_size if file.exists() else 0
                found.append(Entry(file.name, size, note.stat().st_mtime_ns))
        return sorted(found, key=lambda one: (one.used_ns, one.key))

    def _opened(self, key: str) -> tuple[BinaryIO | None, Note | None]:
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return None, None
        file = os.fdopen(descriptor, "rb")
        try:
            return file, Note(**json.loads(self._note(key).read_bytes()))
        except (OSError, ValueError, TypeError):
            file.close()
            return None, None

    def _write(self, key: str, note: Note) -> None:
        part = self._note(key).with_suffix(".part")
        part.write_text(json.dumps(asdict(note)))
        part.replace(self._note(key))

    def _path(self, key: str) -> Path:
        return self._root / key[:2] / key

    def _note(self, key: str) -> Path:
        return self._root / key[:2] / f"{key}.json"


def boot() -> str:
    """Return a name for the time since the machine started."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def hash_of(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, from its beginning on."""
    digest, buffer = sha256(), bytearray(_PIECE_BYTES)
    file.seek(0)
    while count := file.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(memoryview(buffer)[:count])
    file.seek(0)
    return digest.hexdigest()
