"""Which workers hold which part of a model, and make up whole copies of it together: pure.

A worker keeps its part for ever. Where each holds the whole model there is one part, and every
worker is a copy.
"""

from collections.abc import Collection, Mapping, Sequence


def whole_copies(
    workers: Sequence[str], parts: Mapping[str, int], holders: Collection[str]
) -> list[str]:
    """Return as many copies as the workers make up, in rank order.

    Those that hold the state come before others; then the order is the workers' own.
    """
    by_part = [
        [worker for worker in workers if parts[worker] == part]
        for part in range(max(parts.values()) + 1)
    ]
    num_copies = min(map(len, by_part))
    chosen = [
        set(sorted(alike, key=lambda worker: worker not in holders)[:num_copies])
        for alike in by_part
    ]
    rows = (
        [worker for worker in alike if worker in those]
        for alike, those in zip(by_part, chosen, strict=True)
    )
    return [worker for copy in zip(*rows, strict=True) for worker in copy]


def are_complete(holders: Collection[str], parts: Mapping[str, int]) -> bool:
    """Whether each part of the model is held by one of them."""
    return {parts[worker] for worker in holders} == set(parts.values())


def parts_of_newcomers(workers: Collection[str], parts: Mapping[str, int]) -> list[int]:
    """Return the parts of which workers are missing; of a whole new copy if none is."""
    every = sorted(set(parts.values()))
    counts = [sum(parts[worker] == part for worker in workers) for part in every]
    lacking = [part for part, count in zip(every, counts, strict=True) if count < max(counts)]
    return lacking or every
