"""What a failure leads to besides the next attempt: a pause that grows, and nodes to keep off."""

from datetime import timedelta

from spotrun.api.status import TrainingJobStatus

FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(minutes=5)
KEPT_BLAMED = 16


def pause_after(failures: int) -> timedelta:
    """10 s, doubled with every failure, up to 5 min."""
    doublings = min(failures - 1, 10)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)


def nodes_to_avoid(status: TrainingJobStatus) -> tuple[str, ...]:
    """The nodes on which more than one failure began."""
    blamed = (status.restarts.blamed or ()) if status.restarts is not None else ()
    return tuple(sorted({node for node in blamed if blamed.count(node) > 1}))
