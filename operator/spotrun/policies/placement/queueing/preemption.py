"""Preemption: the jobs of lower priority that make room for one, those that it costs least.

All who can shrink do so before anybody is suspended. Where even all of them together would not make
room for the whole gang nobody gives anything, for half of a gang cannot train.
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
    smaller_sizes: tuple[int, ...]  # with which it can train, ascending; none: it cannot shrink
    shrink_usd: Usd
    suspend_usd: Usd

    @property
    def least(self) -> int:
        """The size that it shrinks to at most."""
        return self.smaller_sizes[0] if self.smaller_sizes else len(self.workers)

    def usd_of(self, size: int) -> Usd:
        """Return the price of making it keep so many workers."""
        return self.suspend_usd if size == SUSPENDED else self.shrink_usd

    def leaving(self, size: int, before: int | None = None) -> Sequence[Held]:
        """Return the workers that leave when it shrinks to a size, from all or from a number."""
        present = len(self.workers)
        first = 0 if before is None else present - before
        return self.workers[first : present - size]


@dataclass(frozen=True)
class Claim:
    """A gang that lacks nodes: so many of its workers found none."""

    missing: int
    requests: Resources  # of one worker
    free: Mapping[str, Resources]  # what is left of each node that its workers may use


@dataclass(frozen=True)
class Preemption:
    """The sizes that jobs shrink to, and the price of that."""

    sizes: Mapping[str, int]
    usd: Usd = NO_USD


NOBODY = Preemption({})

Rank = Callable[[Sequence[Held], Usd], float]
"""Ranks what a job could give, by these workers and the price for them; the lowest comes first."""


class _Room:
    """The workers of a claim that fit by what others have given so far."""

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
        """Take back what was given if the rest is enough; return whether it is."""
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
    """Return which jobs keep how many workers, so that the claim is met; NOBODY if it cannot be.

    Jobs are taken by their price, and by their price for each worker that gets room. Who turns out
    not to be needed is left alone, the most expensive first. The cheaper result is taken.
    """
    useful = [one for one in victims if any(held.node in claim.free for held in one.workers)]
    plans = (_in_order(claim, useful, rank) for rank in (_by_price, _by_share_in(claim)))
    return min(filter(_is_plan, plans), key=lambda one: (one.usd, len(one.sizes)), default=NOBODY)


def most_room(claim: Claim, victims: Iterable[Victim]) -> int:
    """Return how many of the missing workers would find room if all gave all."""
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
    """Let who shrinks keep as many workers as will do, all of them where that is possible."""
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

    Two jobs may make room on a node together where neither does alone: that counts as one worker.
    """

    def rank(leaving: Sequence[Held], usd: Usd) -> float:
        room = _Room(claim)
        room.give(leaving)
        return float(usd.exact) / max(room.gained, 1)

    return rank
