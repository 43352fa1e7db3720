"""Sets of worker numbers, read from the compact text that a status holds."""

from spotrun.api.field_types.intervals import NO_NUMBERS, Ranges
from spotrun.api.field_types.text_values import Intervals, WorkerIds


def ordered(worker_ids: WorkerIds | None) -> tuple[int, ...]:
    """Return the numbers in the order written; none where there is nothing."""
    return worker_ids.numbers if worker_ids is not None else ()


def numbers(worker_ids: WorkerIds | None) -> frozenset[int]:
    """Return the numbers as a set."""
    return worker_ids.set if worker_ids is not None else frozenset()


def ranges(settled: Intervals | None) -> Ranges:
    """Return the numbers as a set that may be of millions."""
    return settled.ranges if settled is not None else NO_NUMBERS
