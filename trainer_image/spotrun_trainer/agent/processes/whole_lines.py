"""Output of several processes into one log, a line at a time.

A script without a buffer (`PYTHONUNBUFFERED=1`, which the image sets so that no output is lost)
writes the text of a line and its end by themselves. If several processes write into the same log,
the text of one gets between the text and the end of another's line.
"""

import os
import select
import threading
import time
from collections import defaultdict

HELD_SECONDS = 0.05
"""A part of a line waits this long for its end; a progress bar has none."""
LONGEST_LINE = 1 << 16
"""A longer line is written in parts."""

_WRITING: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
"""A pipe takes a long line in parts, so only one thread at a time may write into one log."""


class WholeLines:
    """The lines that one process prints into one log; the last one is held until it has an end."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._held = bytearray()
        self._held_until = 0.0

    @property
    def is_held(self) -> bool:
        """Whether a part of a line waits for its end."""
        return bool(self._held)

    def add(self, part: bytes) -> None:
        """Write all lines that are whole now."""
        if not self._held:
            self._held_until = time.monotonic() + HELD_SECONDS
        self._held += part
        end = self._held.rfind(b"\n") + 1
        if len(self._held) - end > LONGEST_LINE:
            end = len(self._held)
        if end:
            self._write(end)

    def write_late(self) -> None:
        """Write the part of a line that has waited long enough."""
        if self._held and time.monotonic() >= self._held_until:
            self.write_rest()

    def write_rest(self) -> None:
        """Write all that is held."""
        self._write(len(self._held))

    def _write(self, end: int) -> None:
        lines, self._held = self._held[:end], self._held[end:]
        self._held_until = time.monotonic() + HELD_SECONDS
        with _WRITING[self._log]:
            _write_all(self._log, lines)


def _write_all(target: int, part: bytes | bytearray) -> None:
    """Write all of it; if no process reads it any more, the script continues all the same."""
    rest = memoryview(part)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:
            room = select.poll()  # select() knows no descriptor above 1,023
            room.register(target, select.POLLOUT)
            room.poll()
        except OSError:
            return
