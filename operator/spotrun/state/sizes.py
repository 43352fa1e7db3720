"""Sizes of a job: those that the user allows, and the largest of them that can be had."""

from spotrun.api.spec.workers import Workers


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
    return largest(workers, workers.replicas) or smallest(workers)


def largest(workers: Workers, at_most: int) -> int:
    """The largest allowed size that so many workers can make up; 0 if they are too few."""
    sizes = allowed(workers)
    if isinstance(sizes, range):
        if at_most < sizes[0]:
            return 0
        return sizes[min((at_most - sizes[0]) // workers.per_replica, len(sizes) - 1)]
    return max((size for size in sizes if size <= at_most), default=0)
