"""The pause before the next try, and the log level of failures."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

Roll = Callable[[], float]
"""A random number in [0, 1), such as `random.Random().random`."""


@dataclass(frozen=True)
class Backoff:
    """Pauses that double from `least_seconds` to `most_seconds`; half of each is random."""

    least_seconds: float = 0.2
    most_seconds: float = 15.0

    def pause_seconds(
        self, failures: int, roll: Roll, retry_after_seconds: float | None = None
    ) -> float:
        """Return the pause after this many failures in a row, at least what the server asked for.

        The pause that the server asked for is extended by up to a tenth, so that not all clients
        that it turned away come back at once.
        """
        doubled = self.least_seconds * 2.0 ** min(max(failures - 1, 0), 64)
        pause = min(doubled, self.most_seconds) * (0.5 + 0.5 * roll())
        if retry_after_seconds is None:
            return pause
        return max(pause, retry_after_seconds * (1 + 0.1 * roll()))


def log_level(failures: int) -> int:
    """Return the log level of the last of these failures in a row: not every one is a warning.

    The 1st, 2nd, 4th, 8th and so on are: more warnings would hide the other log lines.
    """
    return logging.WARNING if failures & (failures - 1) == 0 else logging.DEBUG
