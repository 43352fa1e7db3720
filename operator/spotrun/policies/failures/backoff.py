"""The effects of a failure besides the next attempt: a pause that grows, and nodes to keep off."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from spotrun.api.status import MOST_AVOIDED, MOST_BLAMED_ONCE
from spotrun.state.job_state import JobState
from spotrun.state.stored.failures import Restarts
from spotrun.state.view import View

FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(minutes=5)


def pause_after(failures: int) -> timedelta:
    """Return 10 s, doubled with every failure, up to 5 min."""
    doublings = min(failures - 1, 10)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)


def pause_seconds(view: View, retry_at: datetime | None) -> float | None:
    """Return how long a pause still is; None if there is none."""
    if retry_at is None or retry_at <= view.now:
        return None
    return (retry_at - view.now) / timedelta(seconds=1)


def blamed_with(restarts: Restarts, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes that are blamed when these are as well.

    Where they are too many, who is blamed once does not push out who is blamed twice: of nodes that
    fail together none would ever be avoided.
    """
    named = (*restarts.blamed, *nodes)
    times = Counter(named)
    newest_first = dict.fromkeys(reversed(named))
    twice = [node for node in newest_first if times[node] > 1][:MOST_AVOIDED]
    once = [node for node in newest_first if times[node] == 1][:MOST_BLAMED_ONCE]
    left = dict.fromkeys(once, 1) | dict.fromkeys(twice, 2)
    kept: list[str] = []
    for node in reversed(named):
        if left.get(node, 0):
            left[node] -= 1
            kept.append(node)
    return tuple(reversed(kept))


def nodes_to_avoid(status: JobState) -> tuple[str, ...]:
    """The nodes on which more than one failure began."""
    times = Counter(status.restarts.blamed)
    return tuple(sorted(node for node in times if times[node] > 1))
