"""A tracker may block and raise: only the recorder's thread waits for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Logged = float | int | str


@dataclass(frozen=True)
class Identity:
    """The job as trackers know it: a restart of it has the same; all are empty outside of a job."""

    uid: str = ""
    name: str = ""
    namespace: str = ""


class Tracker(Protocol):
    """A place for what is logged."""

    def begin(self, step: int) -> None:
        """Go on from a step: what was recorded of this one and of later ones comes again."""

    def record(self, step: int, time: float, values: Mapping[str, Logged]) -> None:
        """Record the values of a step."""

    def flush(self) -> None:
        """Write what was recorded: nothing more comes for a while."""

    def close(self) -> None:
        """End it."""


def numbers(values: Mapping[str, Logged]) -> dict[str, float]:
    """Return the values that can be drawn."""
    return {name: float(value) for name, value in values.items() if not isinstance(value, str)}
