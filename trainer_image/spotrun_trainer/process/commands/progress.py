"""The progress of a command that takes more than a few seconds, on stderr."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from spotrun_trainer.process.commands.texts import age_text, size_text

QUIET_SECONDS = 3.0
TERMINAL_SECONDS, LOG_SECONDS = 0.5, 10.0
"""The time between two lines: on a terminal a line replaces the one before, in a log it stays."""


class Progress:
    """Counts bytes, and prints from time to time how many of them are done."""

    def __init__(
        self,
        what: str,
        total: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._done = 0
        self._begun = clock()
        self._next = self._begun + QUIET_SECONDS
        self._is_shown = False

    def add(self, num_bytes: int) -> None:
        """Count some bytes."""
        self._done += num_bytes
        now = self._clock()
        if now < self._next:
            return
        is_terminal = self._stream.isatty()
        self._next = now + (TERMINAL_SECONDS if is_terminal else LOG_SECONDS)
        self._is_shown = is_terminal
        print(self._line(now), file=self._stream, end="" if is_terminal else "\n", flush=True)

    def __enter__(self) -> "Progress":  # noqa: PYI034 - typing has Self from 3.11 on
        return self

    def __exit__(self, *_error: object) -> None:
        if self._is_shown:  # later output has a line of its own
            print(file=self._stream, flush=True)

    def _line(self, now: float) -> str:
        start = "\r\x1b[K" if self._stream.isatty() else ""
        left = (self._total - self._done) * (now - self._begun) / max(1, self._done)
        return (
            f"{start}{self._what}: {size_text(self._done)} of {size_text(self._total)}, "
            f"{age_text(left)} left"
        )
