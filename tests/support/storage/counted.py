"""A place for checkpoints in this process's memory, which counts what is asked of it."""

import errno
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from spotrun_trainer.checkpoint.format.names import Name, names_among
from spotrun_trainer.checkpoint.format.storage import MARKER, FileFacts, Told


class MemoryNote:
    """A file beside the checkpoints."""

    beat_seconds = 1.0

    def __init__(self) -> None:
        self._content: bytes | None = None
        self._lock = threading.Lock()

    def read(self) -> bytes | None:
        return self._content

    def create(self, content: bytes) -> bool:
        with self._lock:
            is_new = self._content is None
            self._content = content if is_new else self._content
            return is_new

    def replace(self, content: bytes) -> None:
        self._content = content

    def remove(self) -> None:
        self._content = None


class CountedPlace:
    """Files in memory; `counts` has opens, lists, and bytes that were read and written.

    An open is any request for a file's content or length, whether the file is there or not.
    """

    def __init__(self, *, upload_seconds: Callable[[str], float] = lambda _file: 0.0) -> None:
        self.counts = Counter[str]()
        self._upload_seconds = upload_seconds
        self._files: dict[tuple[Name, str], bytes] = {}
        self._notes: dict[str, MemoryNote] = {}
        self._lock = threading.Lock()

    def where(self, name: Name | None = None, file: str = "") -> str:
        return "/".join(one for one in ("memory", str(name or ""), file) if one)

    def check(self) -> None:
        pass

    def names(self) -> list[Name]:
        with self._lock:
            return names_among([*{str(name) for name, _ in self._files}])

    def files(self, name: Name) -> list[FileFacts]:
        with self._lock:
            self.counts["lists"] += 1
            found = [(file, content) for (of, file), content in self._files.items() if of == name]
        return [FileFacts(file, len(content), 0.0) for file, content in found]

    def stored(self) -> None:
        return None

    def make(self, name: Name) -> None:
        pass

    @contextmanager
    def opened(
        self, name: Name, file: str, _reads: Sequence[tuple[int, int]] = ()
    ) -> Iterator["OpenBytes"]:
        yield OpenBytes(self._open(name, file), self)

    def begin_reading(self, name: Name, file: str, size: int, most_bytes: int) -> None:
        pass

    def end_begun(self) -> int:
        return 0

    def read(self, name: Name, file: str) -> bytes:
        content = self._open(name, file)
        self.count_bytes(len(content))
        return content

    def write_data(self, name: Name, file: str, content: Sequence[memoryview], told: Told) -> None:
        for piece in content:
            told(piece)
        time.sleep(self._upload_seconds(file))
        self._put(name, file, b"".join(content))

    def write(self, name: Name, file: str, content: bytes, rank: int) -> None:
        self._put(name, file, content)

    def write_once(self, name: Name, file: str, content: bytes, rank: int) -> None:
        with self._lock:
            self.counts["markers"] += file == MARKER
            self._files.setdefault((name, file), content)

    def remove_file(self, name: Name, file: str) -> None:
        with self._lock:
            self._files.pop((name, file), None)

    def remove(self, name: Name) -> None:
        with self._lock:
            for file in [file for of, file in self._files if of == name]:
                del self._files[name, file]

    def note(self, file: str) -> MemoryNote:
        return self._notes.setdefault(file, MemoryNote())

    def count_bytes(self, size: int) -> None:
        with self._lock:
            self.counts["bytes"] += size

    def _put(self, name: Name, file: str, content: bytes) -> None:
        with self._lock:
            self._files[name, file] = content

    def _open(self, name: Name, file: str) -> bytes:
        with self._lock:
            self.counts["opens"] += 1
            found = self._files.get((name, file))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", self.where(name, file))
        return found


class OpenBytes:
    """A file that is being read."""

    def __init__(self, content: bytes, place: CountedPlace) -> None:
        self._content = content
        self._place = place
        self.size = len(content)

    def read_into(self, offset: int, target: memoryview) -> None:
        piece = memoryview(self._content)[offset : offset + len(target)]
        if len(piece) < len(target):
            raise ValueError("it ended early")
        target[:] = piece
        self._place.count_bytes(len(piece))
