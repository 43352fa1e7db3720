"""The parts of a policy: what it concludes, does and announces, and when it must run again.

Each policy is one constant, at the end of its module; chain.py puts them in their order.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from spotrun.state.actions import Action, Announce
from spotrun.state.job_state import JobState
from spotrun.state.view import View

Conclude = Callable[[View, JobState], JobState]
"""Concludes a next status from what is known and from the status that it receives."""


class Wakes(Enum):
    """The phases in which a policy's moments for its next run count."""

    UNTIL_FINISHED = auto()
    UNTIL_ALL_HAVE_LEFT = auto()
    """Also while workers of a finished job end by themselves: this costs money, and may be cut
    short."""
    ALWAYS = auto()


def unchanged(_view: View, status: JobState) -> JobState:
    """Conclude nothing."""
    return status


def never(_view: View, _status: JobState) -> float | None:
    """Wait for no moment."""
    return None


def nothing(_view: View, _status: JobState) -> tuple[()]:
    """Do nothing, or announce nothing."""
    return ()


@dataclass(frozen=True)
class Policy:
    """One step of a decision; each part is a pure function of the view and the status.

    First all policies of the chain conclude, each from the status that the one before it left.
    Actions, announcements and the time of the next pass follow from the status that is stored.
    """

    conclude: Conclude = unchanged
    wake_after_seconds: Callable[[View, JobState], float | None] = never
    """Return the seconds after which time alone changes the outcome; None, 0 or less: never."""
    wakes: Wakes = Wakes.UNTIL_FINISHED
    actions: Callable[[View, JobState], Iterable[Action]] = nothing
    announce: Callable[[View, JobState], Iterable[Announce]] = nothing
    """Events that tell what the status is now and was not before, in `view.job.status`."""
    is_for_readers: bool = False
    """No decision depends on it: it is left out if nobody reads the status, as in a replay."""
