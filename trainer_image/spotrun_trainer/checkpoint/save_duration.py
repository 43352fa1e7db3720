"""The duration of saves, to know whether a save can be ready in time."""

import time
from collections import deque
from pathlib import Path

ASSUMED_BYTES_PER_SECOND = 100e6
"""The speed assumed before the first save: a slow network volume."""
REMEMBERED = 3
_MOST_BYTES_PER_SECOND = 10e9
"""The highest speed that is believed: no disk is faster, and a save of milliseconds is no
measurement."""


def hindered_seconds() -> float:
    """Return the seconds this thread waited for a CPU; 0 where the kernel does not say.

    A save during training is slow because it yields to training; one that training waits for is
    not.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Stopwatch:
    """Measures the seconds since it was made, in one thread."""

    def __init__(self) -> None:
        self._began, self._hindered = time.monotonic(), hindered_seconds()

    def seconds(self) -> float:
        """Return the seconds by the clock."""
        return time.monotonic() - self._began

    def unhindered_seconds(self) -> float:
        """Return the seconds by the clock, less the time in which other threads ran instead."""
        return max(0.0, self.seconds() - (hindered_seconds() - self._hindered))


class SaveSpeed:
    """The speed of the slowest of the last few saves."""

    def __init__(self) -> None:
        self._measured: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)

    def note(self, size: int, seconds: float) -> None:
        """Note that `size` bytes took `seconds`."""
        self._measured.append((size, max(seconds, size / _MOST_BYTES_PER_SECOND)))

    def seconds_for(self, size: int) -> float:
        """Estimate the seconds for `size` bytes; a smaller save has the same fixed costs."""
        if not self._measured:
            return size / ASSUMED_BYTES_PER_SECOND
        return max(seconds * max(1.0, size / max(1, of)) for of, seconds in self._measured)
