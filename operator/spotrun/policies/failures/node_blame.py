"""The nodes that are blamed for failures, and the nodes that the job therefore avoids."""

from collections import Counter
from collections.abc import Iterable

from spotrun.api.status import MOST_AVOIDED, MOST_BLAMED_ONCE
from spotrun.state.job_state import JobState
from spotrun.state.stored.failures import Restarts
from spotrun.wire import is_of_device


def blamed_with(restarts: Restarts, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes that are blamed when these are as well.

    If there are too many, a node blamed once does not displace a node blamed twice: otherwise, if
    many nodes fail together, none would ever be avoided.
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


def guilty(node: str | None, message: str) -> tuple[str, ...]:
    """Return a node as often as a failure with this message blames it.

    If its device is faulty or computes wrong numbers, once is enough to avoid it.
    """
    if node is None:
        return ()
    return (node,) * (2 if is_of_device(message) else 1)


def nodes_to_avoid(status: JobState) -> tuple[str, ...]:
    """The nodes on which more than one failure began."""
    times = Counter(status.restarts.blamed)
    return tuple(sorted(node for node in times if times[node] > 1))
