"""The interrupt of a process: SIGTERM, or a time after which it must not continue.

The handler only notes the signal; the loop looks at it where it can act.
"""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Literal

Reason = Literal["departed", "preempted"]
Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None

GRACE_SECONDS = 30.0  # Kubernetes' default


class InterruptedStepError(Exception):
    """There is not enough time left to finish the step that is being computed."""


class Interrupt:
    """Whether, why and by when this process has to end.

    `stop_at` tells the time (seconds since the epoch) after which to depart, None if there is none.
    """

    def __init__(
        self,
        grace_seconds: float = GRACE_SECONDS,
        *,
        stop_at: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.grace_seconds = grace_seconds
        self._stop_at = stop_at
        self._clock = clock
        self._wall_clock = wall_clock
        self._terminated_at: float | None = None
        self._before: Handler = None

    def listen(self) -> None:
        """Note SIGTERM from now on; only the main thread can ask for that."""
        self._before = signal.signal(signal.SIGTERM, self._note)

    def unlisten(self) -> None:
        """Restore the signal's former handler, and forget a signal that came."""
        self._terminated_at = None
        if signal.getsignal(signal.SIGTERM) == self._note:
            # A handler that Python code did not set, such as faulthandler's, cannot be restored.
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._terminated_at is None:
            self._terminated_at = self._clock()

    def reason(self) -> Reason | None:
        """Return the reason to end; None if there is none."""
        if self._terminated_at is not None:
            return "preempted"
        stop_at = self._stop_at()
        return "departed" if stop_at is not None and self._wall_clock() >= stop_at else None

    def seconds_left(self) -> float:
        """Return the seconds left before the end; infinite without a reason to end."""
        if self._terminated_at is not None:
            return self._terminated_at + self.grace_seconds - self._clock()
        # Past `stopAt` no signal follows: this process leaves by itself, and every second costs.
        return self.grace_seconds if self.reason() else float("inf")
