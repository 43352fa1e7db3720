"""Sizes of a job: those that the user allows, what limits them, and the largest that can be had."""

from collections.abc import Iterable
from dataclasses import dataclass

from spotrun.api.names import Reason
from spotrun.api.spec.workers import Workers


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """A reason to give a job fewer workers than its user asked for, concluded at each look."""

    reason: Reason
    workers: int | None = None  # no more than so many; None: as many as are asked for
    stable_workers: int | None = None  # of these on demand or reserved; None: any number
    why: str = ""


def allowed(workers: Workers) -> tuple[int, ...] | range:
    """The sizes a world may have, ascending."""
    if workers.sizes:
        return workers.sizes
    return range(workers.min, workers.max + 1, workers.per_replica)


def smallest(workers: Workers) -> int:
    """The fewest workers that may train."""
    return allowed(workers)[0]


def wanted(workers: Workers) -> int:
    """The wanted size: `replicas` clamped to [min, max], rounded down to one that is allowed."""
    return within(workers, ())


def within(workers: Workers, limits: Iterable[SizeLimit]) -> int:
    """The wanted size, or the largest below it that the limits leave; never less than the least."""
    given = (limit.workers for limit in limits if limit.workers is not None)
    return largest(workers, min((workers.replicas, *given))) or smallest(workers)


def largest(workers: Workers, at_most: int) -> int:
    """The largest allowed size that so many workers can make up; 0 if they are too few."""
    sizes = allowed(workers)
    if isinstance(sizes, range):
        if at_most < sizes[0]:
            return 0
        return sizes[min((at_most - sizes[0]) // workers.per_replica, len(sizes) - 1)]
    return max((size for size in sizes if size <= at_most), default=0)
