"""The schedule of checkpoints."""

import re
import statistics
import time
from collections import deque
from collections.abc import Callable

from spotrun_trainer.checkpoint import Saved, interval_seconds

FIRST_SECONDS = 60.0  # until a first save has shown the cost of saves
LOSS_SECONDS = 3600.0  # assumed between two losses that cost steps
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
_STEPS = re.compile(r"(\d+) steps?")


class SaveSchedule:
    """A schedule by seconds, by steps, or by measured costs ("auto")."""

    def __init__(self, every: float | str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._steps = parse(every)
        self._is_auto = self._seconds is None and self._steps is None
        self._clock = clock
        self._saved_at = self._saved_before = clock()
        self._usual = deque[float](maxlen=20)  # seconds of steps during which no save ran
        self._excess_seconds = 0.0
        self._shortest = 0.0  # the time of an upload
        self.cost_seconds: float | None = None  # of the last save

    def follow(self, seconds: float | None) -> None:
        """Save as often as the operator says, if the script left it open; None: by cost."""
        if self._is_auto and seconds is not None:
            self._seconds = max(seconds, self._shortest)

    def is_due(self, step: int) -> bool:
        """Whether to save at the end of this step."""
        if self._steps is not None:
            return step % self._steps == 0
        seconds = FIRST_SECONDS if self._seconds is None else self._seconds
        return self._clock() - self._saved_at >= seconds

    def begun(self) -> None:
        """Note that a save has begun."""
        self._saved_before, self._saved_at = self._saved_at, self._clock()
        self._excess_seconds = 0.0

    def hurry(self) -> None:
        """Make the next save by seconds due at once."""
        self._saved_at = self._saved_before = float("-inf")

    def dropped(self) -> None:
        """Note that the last save was dropped, so the next one is due as before it."""
        self._saved_at = self._saved_before

    def step_took(self, seconds: float, *, is_saving: bool) -> None:
        """Note the length of a step: steps beside a save show its cost."""
        if not is_saving:
            self._usual.append(seconds)
        elif self._usual:
            self._excess_seconds += max(0.0, seconds - statistics.median(self._usual))

    def saved(self, saved: Saved) -> None:
        """Note that a save is durable."""
        self._shortest = saved.upload_seconds
        self.cost_seconds = saved.stall_seconds + self._excess_seconds
        if self._is_auto:
            self._seconds = interval_seconds(
                saved.upload_seconds, saved.stall_seconds, self._excess_seconds, LOSS_SECONDS
            )


def parse(every: float | str) -> tuple[float | None, int | None]:
    """Parse an interval into seconds or steps; neither means "auto"."""
    if not isinstance(every, str):
        if every <= 0:
            raise ValueError(f"every={every}: give a number of seconds above 0")
        return float(every), None
    if every == "auto":
        return None, None
    if (steps := _STEPS.fullmatch(every)) and int(steps[1]):
        return None, int(steps[1])
    parts = _DURATION.findall(every)
    if not parts or "".join(number + unit for number, unit in parts) != every:
        raise ValueError(
            f'every={every!r}: give "auto", a duration ("10m", or a number of seconds), or a '
            'number of steps ("500 steps")'
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts), None
