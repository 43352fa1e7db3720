"""How many workers: what the user allows, and the largest of that which can be had."""

from spotrun.api.workers import Workers


def allowed(workers: Workers) -> tuple[int, ...]:
    """The sizes a world may have, ascending."""
    if workers.sizes:
        return tuple(workers.sizes)
    return tuple(range(workers.min, workers.max + 1, workers.per_replica))


def wanted(workers: Workers) -> int:
    """The wanted size: `replicas` clamped to [min, max], rounded down to one that is allowed."""
    sizes = allowed(workers)
    return largest(workers, workers.replicas) or sizes[0]


def largest(workers: Workers, at_most: int) -> int:
    """The largest allowed size that so many workers can make up; 0 if they are too few."""
    return max((size for size in allowed(workers) if size <= at_most), default=0)
