"""A census of a process: its objects by type, the entries of its containers, its tasks.

Two censuses of a process that has nothing to do, with many jobs made and deleted between them,
differ by what these jobs have left behind.
"""

import asyncio
import functools
import gc
from collections import Counter, deque
from collections.abc import Mapping

_CONTAINERS = (dict, list, set, frozenset, deque)
_FEW = 20
"""Objects of a type, or entries of containers of a type, that are not worth a line."""

CACHED = "cached results"
"""The entry for results that `functools.lru_cache` keeps; they grow up to a limit."""

_LruCache = type(functools.lru_cache(len))

Census = dict[str, int]


def census() -> Census:
    """Count what is alive in this process, garbage left out."""
    is_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()  # the oldest containers are counted as well
    for _ in range(3):  # what has a finalizer goes one round later
        gc.collect()
    found: Counter[str] = Counter()
    objects = gc.get_objects()
    for one in (*objects, *_untracked_dicts(objects)):
        kind = type(one)
        found[f"objects {kind.__module__}.{kind.__qualname__}"] += 1
        if issubclass(kind, _CONTAINERS):
            found[f"entries {kind.__module__}.{kind.__qualname__}"] += len(one)
        elif kind is _LruCache:
            found[CACHED] += one.cache_info().currsize
    if is_frozen:
        gc.freeze()
    kept = {name: count for name, count in found.items() if count > _FEW}
    return kept | {"tasks": len(asyncio.all_tasks())}


def _untracked_dicts(objects: list[object]) -> list[object]:
    """Return the dicts of plain values, which the collector leaves out: they are in no cycle.

    The results that `functools.lru_cache` keeps are in such a dict too; they are counted as cached.
    """
    found: dict[int, object] = {}
    for one in objects:
        if type(one) is _LruCache:
            continue
        for held in gc.get_referents(one):
            if type(held) is dict and not gc.is_tracked(held):
                found[id(held)] = held
    return list(found.values())


def growth_per_job(
    before: Mapping[str, int], after: Mapping[str, int], jobs: int
) -> dict[str, float]:
    """Return by how much each count has grown for each of so many jobs, the greatest first."""
    grown = {
        name: (count - before.get(name, 0)) / jobs
        for name, count in after.items()
        if count > before.get(name, 0)
    }
    return dict(sorted(grown.items(), key=lambda one: -one[1]))


def slope(points: list[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points (Theil and Sen).

    A few samples that are far off, as one taken amid a collection is, do not move it.
    """
    slopes = sorted(
        (y2 - y1) / (x2 - x1)
        for n, (x1, y1) in enumerate(points)
        for x2, y2 in points[n + 1 :]
        if x2 != x1
    )
    middle = len(slopes) // 2
    if not slopes:
        raise ValueError("a slope needs two samples at different times: run more waves")
    return slopes[middle] if len(slopes) % 2 else (slopes[middle - 1] + slopes[middle]) / 2
