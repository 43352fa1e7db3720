"""A cache of claims for all jobs together: the oldest reading goes first."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(known: dict[K, V], which: K, found: V, *, most: int) -> None:
    """Keep what was read of a claim as the newest of at most so many."""
    known.pop(which, None)
    while len(known) >= most:
        del known[next(iter(known))]
    known[which] = found
