"""Sets of worker numbers in status only grow."""

from collections.abc import Iterable

from spotrun.api.values import Serials


def union(serials: Serials | None, more: Iterable[int]) -> Serials:
    """Both, ascending."""
    return Serials.of(tuple(sorted({*(serials or Serials("")).numbers, *more})))
