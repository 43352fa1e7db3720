"""Being told to end: SIGTERM, or a time after which this process must not go on.

The handler takes a note and does nothing else; the loop looks at it where it can act.
"""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Literal

Reason = Literal["departed", "preempted"]
Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None

GRACE_SECONDS = 30.0  # what Kubernetes gives unless told otherwise


class InterruptedStepError(Exception):
    """There is not enough time left to finish the step that is being computed."""


class Interrupt:
    """Whether, why and until when this process has to end.

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
        """Take note of SIGTERM from now on; only the main thread can ask for that."""
        self._before = signal.signal(signal.SIGTERM, self._note)

    def unlisten(self) -> None:
        """Give the signal back to whoever had it; what came is past."""
        self._terminated_at = None
        if signal.getsignal(signal.SIGTERM) == self._note:
            # What no Python code has set, such as faulthandler's, cannot be put back.
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._terminated_at is None:
            self._terminated_at = self._clock()

    def reason(self) -> Reason | None:
        """Why to end; None if there is no reason."""
        if self._terminated_at is not None:
            return "preempted"
        stop_at = self._stop_at()
        return "departed" if stop_at is not None and self._wall_clock() >= stop_at else None

    def seconds_left(self) -> float:
        """How long there is for what must be done before the end; infinite without a reason."""
        if self._terminated_at is not None:
            return self._terminated_at + self.grace_seconds - self._clock()
        # Past `stopAt` nobody kills: leaving is up to this process, and every second costs.
        return self.grace_seconds if self.reason() else float("inf")
