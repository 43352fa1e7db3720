"""The trainer's output: sentences on stderr, and one line of values per step on stdout."""

import sys
import time
from collections.abc import Callable

from torch import Tensor

from spotrun.wire import Metric
from spotrun_trainer.telemetry.metrics import Metrics
from spotrun_trainer.telemetry.trackers.recorder import Recorder

LINE_SECONDS = 0.5  # of quick steps not all are printed; the last one is

Value = float | int | str | Tensor


def say(sentence: str) -> None:
    """Print a sentence for the reader of the log."""
    print(f"spotrun: {sentence}", file=sys.stderr, flush=True)


class ConsoleLog:
    """Collects a step's values and prints them when the step is over.

    Values are fetched from the device at that time, when they have long been computed. A line is
    left out if another one with values of the same names came shortly before, unless it must be
    kept.
    """

    def __init__(
        self,
        *,
        is_printed: bool = True,
        recorder: Recorder | None = None,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], object] = lambda line: print(line, flush=True),
    ) -> None:
        self.last: dict[str, Value] = {}
        self.is_printed = is_printed
        self._recorder = recorder
        self.steps_done = 0
        self._metrics = Metrics()
        self._clock = clock
        self._write = write
        self._step = 0
        self._is_kept = False
        self._values: dict[str, Value] = {}
        self._printed: tuple[set[str], float] = (set(), float("-inf"))

    def note(self, step: int, values: dict[str, Value]) -> None:
        """Collect values of a step."""
        self._turn_to(step)
        self._values.update(values)
        self.last.update(values)

    def keep_line(self, step: int) -> None:
        """Print the line of this step, if it has values, even if it comes soon after another."""
        self._turn_to(step)
        self._is_kept = True

    def metrics(self) -> tuple[Metric, ...]:
        """Return the newest numbers of done steps, except the last one: it may still compute."""
        if self._step < self.steps_done:
            self._note_metrics()
        return self._metrics.reported()

    def flush(self, *, is_last: bool = False) -> None:
        """Print the collected values."""
        if is_last and self._step <= self.steps_done:
            self._note_metrics()
            self._record()
        values, self._values = self._values, {}
        is_kept, self._is_kept = is_last or self._is_kept, False
        names, at = self._printed
        if not values or not self.is_printed:
            return
        if not is_kept and names.issuperset(values) and self._clock() - at < LINE_SECONDS:
            return
        self._printed = (set(values), self._clock())
        shown = "  ".join(f"{name} {_shown(value)}" for name, value in values.items())
        self._write(f"step {self._step}  {shown}")

    def _turn_to(self, step: int) -> None:
        if step != self._step:
            if step > self._step:  # else the step was dropped, and comes again
                self._note_metrics()
                self._record()
            self.flush()
            self._step = step

    def close(self) -> None:
        """Print the collected values, and end what records them."""
        self.flush(is_last=True)
        if self._recorder is not None:
            self._recorder.close()

    def _record(self) -> None:
        if self._recorder is None:
            return
        if not self.is_printed:  # another process is rank 0
            self._recorder.release()
        elif self._values:
            self._recorder.record(self._step, self._values, is_kept=self._is_kept)

    def _note_metrics(self) -> None:
        values = self._values.items()
        numbers = {name: value for name, value in values if not isinstance(value, str)}
        self._metrics.take(numbers, self._step)


def _shown(value: Value) -> str:
    if isinstance(value, Tensor):
        value = value.item()
    return f"{value:.5g}" if isinstance(value, float) else str(value)
