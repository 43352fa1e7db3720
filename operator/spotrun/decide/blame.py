"""What a failure leads to besides the next attempt: a pause that grows, and nodes to keep off."""

from datetime import timedelta

from spotrun.api.status import TrainingJobStatus
from spotrun.api.values import Time
from spotrun.decide.view import View

FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(minutes=5)
KEPT_BLAMED = 16


def pause_after(failures: int) -> timedelta:
    """10 s, doubled with every failure, up to 5 min."""
    doublings = min(failures - 1, 10)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)


def pause_seconds(view: View, retry_at: Time | None) -> float | None:
    """How long a pause still is; None if there is none."""
    if retry_at is None or retry_at.datetime <= view.now:
        return None
    return (retry_at.datetime - view.now) / timedelta(seconds=1)


def nodes_to_avoid(status: TrainingJobStatus) -> tuple[str, ...]:
    """The nodes on which more than one failure began."""
    blamed = (status.restarts.blamed or ()) if status.restarts is not None else ()
    return tuple(sorted({node for node in blamed if blamed.count(node) > 1}))
