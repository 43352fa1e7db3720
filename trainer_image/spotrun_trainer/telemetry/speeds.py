"""The seconds that a process takes for a sample, which it sends to the others with its votes.

The loop over a step's microbatches is timed, with its waits for data: work that a step does once,
such as the update, takes the same time everywhere. On a GPU two events in its stream are timed,
because the host runs ahead of it.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Protocol

import torch

from spotrun_trainer.telemetry.gpu.device_time import recorder_of

WINDOW_STEPS = 10
"""The steps whose median is the measure: up to four slow ones in a row do not change it."""
LEAST_STEPS = 3
"""The number of steps that a measure needs at least."""


class Stopwatch(Protocol):
    """Measures the time between two calls, which may be known only later."""

    def start(self) -> None: ...
    def stop(self) -> Callable[[], float | None]:
        """Return a function that returns the seconds since `start`, None until they are known."""


class HostStopwatch:
    """Measures by this machine's clock."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begun = 0.0

    def start(self) -> None:
        self._begun = self._clock()

    def stop(self) -> Callable[[], float | None]:
        seconds = self._clock() - self._begun
        return lambda: seconds


class DeviceStopwatch:
    """Measures by events in a GPU's stream."""

    def __init__(self, record: Callable[[], Any]) -> None:
        """`record` puts an event into the stream; it has `query()` and `elapsed_time(later)`."""
        self._record = record
        self._begun: Any = None

    def start(self) -> None:
        self._begun = self._record()

    def stop(self) -> Callable[[], float | None]:
        begun, ended = self._begun, self._record()
        return lambda: begun.elapsed_time(ended) / 1_000 if ended.query() else None


def stopwatch_of(device: torch.device) -> Stopwatch:
    """Return the stopwatch for what a device computes."""
    record = recorder_of(device)
    return HostStopwatch() if record is None else DeviceStopwatch(record)


class Speeds:
    """The seconds for a sample of this process, and its way to all processes of the world."""

    def __init__(
        self,
        tell: Callable[[Sequence[float]], None] | None = None,
        *,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """`tell` is called with those of all, by rank; None: nothing is measured."""
        self._tell = tell
        self._stopwatch = stopwatch or HostStopwatch()
        self._rank, self._size = 0, 1
        self._is_unusual = True  # the present step: a first one compiles
        self._present: list[tuple[Callable[[], float | None], int]] = []  # loops of this step
        self._steps = deque[float](maxlen=WINDOW_STEPS)

    def enter(self, rank: int, size: int) -> None:
        """Enter another world; the measure is kept, but its first step is unusual."""
        self._rank, self._size = rank, size
        self._is_unusual = True
        self._present.clear()

    def start(self, *, begins_step: bool) -> None:
        """Begin the loop over microbatches of a step's first phase, or of a later one."""
        if self._tell is None:
            return
        if begins_step:
            self._note_step()
        self._stopwatch.start()

    def stop(self, samples: int) -> None:
        """End it, after this many samples."""
        if self._tell is not None and samples:
            self._present.append((self._stopwatch.stop(), samples))

    @property
    def seconds(self) -> float:
        """The seconds for a sample; 0 while they are not known."""
        return median(self._steps) if len(self._steps) >= LEAST_STEPS else 0.0

    def own(self) -> list[float]:
        """Return what this process adds to a sum over all; nothing if it is not measured."""
        if self._tell is None or self._size == 1:
            return []
        numbers = [0.0] * self._size
        numbers[self._rank] = self.seconds
        return numbers

    def told(self, of_all: Sequence[float]) -> None:
        """Take the sum, in which each process finds the measures of all."""
        if self._tell is not None and of_all:
            self._tell(of_all)

    def _note_step(self) -> None:
        """Note the step before, if it had microbatches, and the device has finished them."""
        loops = [(read(), samples) for read, samples in self._present]
        self._present.clear()
        if not loops:
            return
        known = [seconds / samples for seconds, samples in loops if seconds is not None]
        if len(known) == len(loops) and not self._is_unusual:
            self._steps.append(sum(known))
        self._is_unusual = False
