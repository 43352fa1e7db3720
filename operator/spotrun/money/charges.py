"""The hourly prices of workers: each counts from a time until the next one replaces it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from typing_extensions import override

from spotrun.money.units import UsdPerHour


@dataclass(frozen=True, order=True)
class Charge:
    """The price of a worker from a time on; the next one replaces it."""

    since: datetime  # EVER: since the worker got its node
    usd_per_hour: UsdPerHour
    is_spot: bool = False
    pool: str = ""  # the name under which it counts in `by_pool`; "": none


class Charges(tuple[Charge, ...]):  # noqa: SLOT001 - a tuple's slots are empty: no room
    """The charges of a worker, in the order of time; empty if its price was never known.

    The cost of a worker before the first charge is in the sums. Thousands of workers share one
    such tuple, so its hash is computed once: exact prices are slow to hash and to compare.
    """

    _hash: int

    @override
    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash


NO_CHARGES = Charges()

Book = Mapping[int, Charges]
"""The charges by worker id; a worker whose price was never known is not in it."""


def grouped(book: Book) -> dict[Charges, list[int]]:
    """Return the ids of the workers that have the same charges, ascending."""
    found: dict[Charges, list[int]] = {}
    for worker_id in sorted(book):
        found.setdefault(book[worker_id], []).append(worker_id)
    return found
