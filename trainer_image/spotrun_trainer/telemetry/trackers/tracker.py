"""A tracker may block and raise: only the recorder's thread waits for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Logged = float | int | str


@dataclass(frozen=True)
class Identity:
    """The job as trackers know it, the same after a restart; all are empty outside of a job."""

    uid: str = ""
    name: str = ""
    namespace: str = ""


class Tracker(Protocol):
    """A place for logged values."""

    def begin(self, step: int) -> None:
        """Continue from a step: the records of this step and of later ones come again."""

    def record(self, step: int, time: float, values: Mapping[str, Logged]) -> None:
        """Record the values of a step."""

    def flush(self) -> None:
        """Write what was recorded: nothing more comes for a while."""

    def close(self) -> None:
        """End it."""


def numbers(values: Mapping[str, Logged]) -> dict[str, float]:
    """Return the values that can be drawn."""
    return {name: float(value) for name, value in values.items() if not isinstance(value, str)}
