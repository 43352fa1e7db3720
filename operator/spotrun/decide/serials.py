"""Sets of worker numbers as status holds them: compact text, read often, growing only."""

from collections.abc import Iterable
from functools import lru_cache

from spotrun.api.values import Serials


@lru_cache(maxsize=4096)
def ordered(serials: Serials | None) -> tuple[int, ...]:
    """The numbers in the order written; none where there is nothing."""
    return serials.numbers if serials else ()


@lru_cache(maxsize=4096)
def numbers(serials: Serials | None) -> frozenset[int]:
    """The numbers as a set."""
    return frozenset(ordered(serials))


def union(serials: Serials | None, more: Iterable[int]) -> Serials:
    """Both, ascending."""
    return Serials.of(tuple(sorted({*numbers(serials), *more})))
