"""Shares of a process's time, where no code marks its parts. Pure, except for one small file.

The thread that steps the optimizer either has a CPU (or waits for one), or waits: for data, which
the data loader's watch measures, or for something else, which in a training is the other processes.
That holds where the CPU computes. The host's time does not show what a GPU does.
"""

from collections import deque
from pathlib import Path
from typing import NamedTuple

_WINDOWS = 5
_SCHEDULED = Path("/proc/thread-self/schedstat")


class Moment(NamedTuple):
    """Sums since the start, in nanoseconds."""

    now: int
    busy: int  # the thread had a CPU, or waited for one that others had
    data: int  # it waited for data, or loaded them itself
    busy_with_data: int  # both


class Shares(NamedTuple):
    """The shares of the last seconds; their sum is 1."""

    compute: float
    data: float
    communicate: float


class TimeShares:
    """Shares over the last moments that were taken."""

    def __init__(self) -> None:
        self._moments = deque[Moment](maxlen=_WINDOWS + 1)

    def take(self, moment: Moment) -> Shares | None:
        """Take a moment; return the shares since the oldest one, None for the first."""
        self._moments.append(moment)
        first = self._moments[0]
        whole = moment.now - first.now
        if whole <= 0:
            return None
        busy, data, both = (a - b for a, b in zip(moment[1:], first[1:], strict=True))
        waited = _share(data / whole)
        compute = min(_share((busy - both) / whole), 1.0 - waited)
        return Shares(compute, waited, max(1.0 - waited - compute, 0.0))


def busy_nanoseconds() -> int | None:
    """Return how long this thread has had a CPU, or waited for one; None if unknown."""
    try:
        on_cpu, waited, _ = _SCHEDULED.read_text().split()
    except OSError:
        return None
    return int(on_cpu) + int(waited)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
