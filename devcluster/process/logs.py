"""A container's output: copied from a pipe into a file, and read from there."""

import asyncio
import io
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import BinaryIO

_CHUNK = 65536


class Log:
    """One file of output that may be read while it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._news = asyncio.Event()
        self._complete = asyncio.Event()

    def append(self, data: bytes) -> None:
        """Add output and wake the readers that follow."""
        self._file.write(data)
        self._wake()

    def close(self) -> None:
        """Mark the log as complete."""
        self._file.close()
        self._complete.set()
        self._wake()

    async def completed(self) -> None:
        """Return when the log is complete."""
        await self._complete.wait()

    async def read(self, *, follow: bool, tail: int | None) -> AsyncGenerator[bytes, None]:
        """Yield the existing output (its last `tail` lines) and, with `follow`, new output."""
        with self.path.open("rb") as file:
            if tail is not None:
                _seek_last_lines(file, tail)
            while True:
                news = self._news
                if chunk := file.read(_CHUNK):
                    yield chunk
                elif not follow or self._complete.is_set():
                    return
                else:
                    await news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Pump:
    """Copies data from a pipe into a log until the pipe's last writer is gone."""

    def __init__(self, read_end: int, log: Log) -> None:
        self._read_end = read_end
        self._log = log
        self._loop = asyncio.get_running_loop()
        os.set_blocking(read_end, False)
        self._loop.add_reader(read_end, self._move)

    def stop(self) -> None:
        """Copy the available data and complete the log, even if a writer is left."""
        while self._read_end >= 0:
            if not self._move():
                self._end()

    def _move(self) -> bool:
        try:
            data = os.read(self._read_end, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._log.append(data)
        else:
            self._end()
        return True

    def _end(self) -> None:
        self._loop.remove_reader(self._read_end)
        os.close(self._read_end)
        self._read_end = -1
        self._log.close()


def _seek_last_lines(file: BinaryIO, lines: int) -> None:
    end = file.seek(0, io.SEEK_END)
    position, missing = end, lines
    while position and missing:
        start = max(0, position - _CHUNK)
        file.seek(start)
        block = file.read(position - start)
        # A newline at the very end ends the last line and begins none.
        stop = len(block) - (position == end)
        while missing and (stop := block.rfind(b"\n", 0, stop)) >= 0:
            missing -= 1
        position = start + stop + 1 if not missing else start
    file.seek(position)
