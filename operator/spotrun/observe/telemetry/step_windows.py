"""Steps of a worker from its reports, smoothed: medians over windows that do not overlap.

A report carries the median of the last 20 steps. Right after a world has formed, these are still
steps of the previous world, and the first steps of the new world are slow; so the first window
begins ten steps later. A median over windows ignores outliers.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from spotrun.state.snapshot import ENOUGH_WINDOWS, Reading
from spotrun.wire import Progress, Utilization

WINDOW_STEPS = 20
"""An agent's figures are medians of this many steps."""
IGNORED_STEPS = 10
"""The steps after a change of the world that are not measured."""
_KEPT_WINDOWS = 5


@dataclass(frozen=True)
class _Window:
    progress: Progress
    utilization: Utilization


class Windows:
    """One worker's windows in its present world."""

    def __init__(self) -> None:
        self._world_number = 0
        self._first = Progress(0, 0)
        self._next_step = 0
        self._windows = deque[_Window](maxlen=_KEPT_WINDOWS)
        self._reading: Reading | None = None  # until there is another window
        self._ever_enough = False

    def take(self, progress: Progress, utilization: Utilization) -> bool:
        """Process a report; return whether it completes enough windows."""
        if progress.world_number != self._world_number or progress.step < self._first.step:
            self._world_number, self._first = progress.world_number, progress
            self._next_step = progress.step + IGNORED_STEPS + WINDOW_STEPS
            self._windows.clear()
            self._reading = None
        if progress.step < self._next_step:
            return False
        self._next_step = progress.step + WINDOW_STEPS
        self._windows.append(_Window(progress, utilization))
        self._reading = None
        self._ever_enough |= len(self._windows) == ENOUGH_WINDOWS
        return len(self._windows) == ENOUGH_WINDOWS

    def reading(self) -> Reading:
        """Return the medians over the last windows."""
        if self._reading is None:
            self._reading = self._medians()
        return self._reading

    def _medians(self) -> Reading:
        measured = [window.progress for window in self._windows]
        used = [window.utilization for window in self._windows]
        return Reading(
            world_number=self._world_number,
            windows=len(self._windows),
            ever_enough=self._ever_enough,
            step_seconds=_median(one.step_seconds for one in measured),
            samples_per_step=self._samples_per_step(),
            compute=_median(one.compute for one in measured),
            data=_median(one.data for one in measured),
            communicate=_median(one.communicate for one in measured),
            utilization=Utilization(
                gpu=_median(one.gpu for one in used),
                cpu=_median(one.cpu for one in used),
                memory=_median(one.memory for one in used),
            ),
        )

    def _samples_per_step(self) -> float | None:
        if not self._windows:
            return None
        last = self._windows[-1].progress
        steps, samples = last.step - self._first.step, last.samples - self._first.samples
        return samples / steps if steps > 0 and samples > 0 else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
