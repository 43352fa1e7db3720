"""How long to wait before the next try, and how loudly."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

Roll = Callable[[], float]
"""A random number in [0, 1), such as `random.Random().random`."""


@dataclass(frozen=True)
class Backoff:
    """Doubles from `least_seconds` to `most_seconds`; half of each pause is random."""

    least_seconds: float = 0.2
    most_seconds: float = 15.0

    def pause_seconds(
        self, failures: int, roll: Roll, retry_after_seconds: float | None = None
    ) -> float:
        """The pause after so many failures in a row, never shorter than the server asked for.

        The server's wish is stretched by up to a tenth, so that not all it turned away come back
        at once.
        """
        doubled = self.least_seconds * 2.0 ** min(max(failures - 1, 0), 64)
        pause = min(doubled, self.most_seconds) * (0.5 + 0.5 * roll())
        if retry_after_seconds is None:
            return pause
        return max(pause, retry_after_seconds * (1 + 0.1 * roll()))


def log_level(failures: int) -> int:
    """How loud the last of so many failures in a row is: every one would drown what to do about it.

    The 1st, 2nd, 4th, 8th and so on are warnings.
    """
    return logging.WARNING if failures & (failures - 1) == 0 else logging.DEBUG
