"""Preemption: the choice of jobs of lower priority that make room for a job at the lowest cost.

All jobs that can shrink do so before any job is suspended. If all of them together would not make
room for the whole gang, no job gives anything, because half of a gang cannot train.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spotrun.money.shares import Resources, left, times_in, total
from spotrun.money.units import NO_USD, Usd

SUSPENDED = 0
"""The size of a job that gives all of its workers."""


@dataclass(frozen=True)
class Held:
    """The part of a node that a worker holds."""

    node: str
    requests: Resources


@dataclass(frozen=True)
class Victim:
    """A job of lower priority, and what it costs to interrupt it now."""

    job: str
    workers: tuple[Held, ...]  # in the order in which they leave
    smaller_sizes: tuple[int, ...]  # that can train, ascending; empty: it cannot shrink
    shrink_usd: Usd
    suspend_usd: Usd

    @property
    def least(self) -> int:
        """The smallest size to which it can shrink."""
        return self.smaller_sizes[0] if self.smaller_sizes else len(self.workers)

    def usd_of(self, size: int) -> Usd:
        """Return the cost of an interruption that leaves it so many workers."""
        return self.suspend_usd if size == SUSPENDED else self.shrink_usd

    def leaving(self, size: int, before: int | None = None) -> Sequence[Held]:
        """Return the workers that leave if it shrinks to `size`, from all workers or `before`."""
        present = len(self.workers)
        first = 0 if before is None else present - before
        return self.workers[first : present - size]


@dataclass(frozen=True)
class Claim:
    """A gang that lacks nodes, and the number of its workers without one."""

    missing: int
    requests: Resources  # of one worker
    free: Mapping[str, Resources]  # free resources of each node that its workers may use


@dataclass(frozen=True)
class Preemption:
    """The sizes to which jobs shrink, and the cost of that."""

    sizes: Mapping[str, int]
    usd: Usd = NO_USD


NOBODY = Preemption({})

Rank = Callable[[Sequence[Held], Usd], float]
"""Ranks the workers that a job could give, with their price; the lowest rank comes first."""


class _Room:
    """The number of a claim's workers that fit on the nodes that others have freed so far."""

    def __init__(self, claim: Claim) -> None:
        self._requests = claim.requests
        self._missing = claim.missing
        self._free = dict(claim.free)
        self.gained = 0

    @property
    def is_enough(self) -> bool:
        return self.gained >= self._missing

    def give(self, workers: Iterable[Held]) -> None:
        for held in workers:
            self._change(held, _with)

    def take_back(self, workers: Iterable[Held]) -> None:
        for held in workers:
            self._change(held, left)

    def spare(self, workers: Sequence[Held]) -> bool:
        """Take these workers back if the rest is enough; return whether it is enough."""
        self.take_back(workers)
        if self.is_enough:
            return True
        self.give(workers)
        return False

    def _change(self, held: Held, change: Callable[[Resources, Resources], Resources]) -> None:
        free = self._free.get(held.node)
        if free is None:
            return
        after = self._free[held.node] = change(free, held.requests)
        self.gained += times_in(self._requests, after) - times_in(self._requests, free)


def _with(free: Resources, given: Resources) -> Resources:
    return total((free, given))


def preempt(claim: Claim, victims: Iterable[Victim]) -> Preemption:
    """Return how many workers each job keeps so that the claim is met; NOBODY if it cannot be met.

    Jobs are taken in the order of their price, and again in the order of their price for each
    worker that gets room. Jobs that turn out not to be needed are left alone, the most expensive
    first. The cheaper of the two results is used.
    """
    useful = [one for one in victims if any(held.node in claim.free for held in one.workers)]
    plans = (_in_order(claim, useful, rank) for rank in (_by_price, _by_share_in(claim)))
    return min(filter(_is_plan, plans), key=lambda one: (one.usd, len(one.sizes)), default=NOBODY)


def most_room(claim: Claim, victims: Iterable[Victim]) -> int:
    """Return how many missing workers would find room if all jobs gave all their workers."""
    room = _Room(claim)
    for victim in victims:
        room.give(victim.workers)
    return min(room.gained, claim.missing)


def _in_order(claim: Claim, victims: Sequence[Victim], rank: Rank) -> Preemption:
    room, sizes = _Room(claim), dict[str, int]()
    able = (one for one in victims if one.smaller_sizes)
    for victim in sorted(able, key=lambda one: rank(one.leaving(one.least), one.shrink_usd)):
        if not room.is_enough:
            room.give(victim.leaving(victim.least))
            sizes[victim.job] = victim.least
    for victim in sorted(victims, key=lambda one: rank(_rest(one), one.suspend_usd)):
        if not room.is_enough:
            room.give(_rest(victim))
            sizes[victim.job] = SUSPENDED
    if not room.is_enough:
        return NOBODY
    _spare_suspensions(room, victims, sizes)
    _spare_workers(room, victims, sizes)
    return Preemption(sizes, sum((_price(one, sizes) for one in victims), NO_USD))


def _rest(victim: Victim) -> Sequence[Held]:
    """Return the workers that a job keeps as long as it is not suspended."""
    return victim.leaving(SUSPENDED, before=victim.least)


def _is_plan(found: Preemption) -> bool:
    return bool(found.sizes)


def _spare_suspensions(room: _Room, victims: Iterable[Victim], sizes: dict[str, int]) -> None:
    for victim in sorted(victims, key=lambda one: one.suspend_usd, reverse=True):
        if sizes.get(victim.job) != SUSPENDED:
            continue
        if not room.spare(_rest(victim)):
            continue
        if victim.smaller_sizes:
            sizes[victim.job] = victim.least
        else:
            del sizes[victim.job]


def _spare_workers(room: _Room, victims: Iterable[Victim], sizes: dict[str, int]) -> None:
    """Let jobs that shrink keep as many workers as possible, all of them if that is enough."""
    for victim in sorted(victims, key=lambda one: one.shrink_usd, reverse=True):
        size = sizes.get(victim.job, SUSPENDED)
        if size == SUSPENDED:
            continue
        for larger in (len(victim.workers), *reversed(victim.smaller_sizes[1:])):
            if room.spare(victim.leaving(size, before=larger)):
                sizes[victim.job] = larger
                break
        if sizes[victim.job] == len(victim.workers):
            del sizes[victim.job]


def _price(victim: Victim, sizes: Mapping[str, int]) -> Usd:
    size = sizes.get(victim.job)
    return NO_USD if size is None else victim.usd_of(size)


def _by_price(_leaving: Sequence[Held], usd: Usd) -> float:
    return float(usd.exact)


def _by_share_in(claim: Claim) -> Rank:
    """Rank by the price for each worker of the claim that finds room.

    Two jobs may only together make room on a node: that counts as one worker.
    """

    def rank(leaving: Sequence[Held], usd: Usd) -> float:
        room = _Room(claim)
        room.give(leaving)
        return float(usd.exact) / max(room.gained, 1)

    return rank
