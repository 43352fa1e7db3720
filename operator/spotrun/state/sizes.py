"""Sizes of a job: those that the user allows, their limits, and the largest possible one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from spotrun.api.names import Reason
from spotrun.api.spec.workers import Workers
from spotrun.money.units import NO_USD, Usd


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """A reason to give a job fewer workers than its user asked for, computed in each pass."""

    reason: Reason
    workers: int | None = None  # at most this many; None: as many as requested
    stable_workers: int | None = None  # at most this many on demand or reserved; None: any number
    why: str = ""


class Preemptor(Enum):
    """The state of the job of higher priority to which another one gave way."""

    WAITS = auto()
    """The job lacks nodes, and nodes that become free are for it."""
    HAS_ROOM = auto()
    IS_GONE = auto()
    """The job is over, deleted or suspended, or has waited too long in vain."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order to make room for a job of higher priority; each job carries out its own."""

    to: str  # namespace/name
    uid: str
    workers: int  # the most that it keeps; 0: it is suspended
    why: str
    usd: Usd = NO_USD  # the cost of giving way


@dataclass(frozen=True, slots=True)
class RoomMade:
    """The room that other jobs make for a job that preempts, or why they make none, in words."""

    at: datetime
    words: str
    workers: int = 0  # the number of workers that find room


@dataclass(frozen=True, slots=True)
class Precedence:
    """The jobs of higher or lower priority that affect a job's size."""

    order: Order | None = None
    preemptor: Preemptor = Preemptor.IS_GONE  # of `status.gives_way`
    free_strays: int = 0  # the number of its workers that fit on nodes in no pool
    grows_after: str = ""  # the job of higher priority that must get its nodes first
    made: RoomMade | None = None


NO_PRECEDENCE = Precedence()
"""The facts of a job that neither preempts nor gives way."""


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
    """The wanted size, or the largest below it within the limits; at least the smallest allowed."""
    given = (limit.workers for limit in limits if limit.workers is not None)
    return largest(workers, min((workers.replicas, *given))) or smallest(workers)


def largest(workers: Workers, at_most: int) -> int:
    """The largest allowed size for this many workers; 0 if they are too few."""
    sizes = allowed(workers)
    if isinstance(sizes, range):
        if at_most < sizes[0]:
            return 0
        return sizes[min((at_most - sizes[0]) // workers.per_replica, len(sizes) - 1)]
    return max((size for size in sizes if size <= at_most), default=0)
