"""The early end of a long bench: by Ctrl-C, by SIGTERM, or when its seconds are over.

It ends only where it checks, so that its processes end in order and its results are printed.
"""

import signal
import time
from types import FrameType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class EndedEarlyError(Exception):
    """The bench must end now."""


class EarlyEnd:
    """Whether to end; as a context it handles signals, but a second one kills as usual."""

    def __init__(self, seconds: float | None = None) -> None:
        self.reason = ""
        self.is_by_signal = False
        self._seconds = seconds
        self._until = None if seconds is None else time.monotonic() + seconds

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise EndedEarlyError if the bench must end."""
        if not self.reason and self._until is not None and time.monotonic() > self._until:
            self.reason = f"{self._seconds:g} s are over"
        if self.reason:
            raise EndedEarlyError(self.reason)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.reason, self.is_by_signal = signal.Signals(number).name, True
        signal.signal(number, signal.SIG_DFL)
