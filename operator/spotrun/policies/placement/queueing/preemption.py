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
            self._change(held.node, lambda free, held=held: total((free, held.requests)))

    def take_back(self, workers: Iterable[Held]) -> None:
        for held in workers:
            self._change(held.node, lambda free, held=held: left(free, held.requests))

    def spare(self, workers: Sequence[Held]) -> bool:
        """Take back what was given if the rest is enough; return whether it is."""
        self.take_back(workers)
        if self.is_enough:
            return True
        self.give(workers)
        return False

    def _change(self, node: str, change: Callable[[Resources], Resources]) -> None:
        free = self._free.get(node)
        if free is None:
            return
        after = self._free[node] = change(free)
        self.gained += times_in(self._requests, after) - times_in(self._requests, free)


def preempt(claim: Claim, victims: Iterable[Victim]) -> Preemption:
    """Return which jobs keep how many workers, so that the claim is met; NOBODY if it cannot be.

    Jobs are taken by their price, and by their price for each worker that gets room. Who turns out
    not to be needed is left alone, the most expensive first. The cheaper result is taken.
    """
    useful = [one for one in victims if _gain(claim, one, SUSPENDED)]
    found = (_in_order(claim, sorted(useful, key=key)) for key in (_by_price, _by_share(claim)))
    plans = [one for one in found if one.sizes]
    return min(plans, key=lambda plan: (plan.usd, len(plan.sizes)), default=NOBODY)


def most_room(claim: Claim, victims: Iterable[Victim]) -> int:
    """Return how many of the missing workers would find room if all gave all."""
    room = _Room(claim)
    for victim in victims:
        room.give(victim.workers)
    return min(room.gained, claim.missing)


def _in_order(claim: Claim, victims: Sequence[Victim]) -> Preemption:
    room, sizes = _Room(claim), dict[str, int]()
    for victim in victims:
        if not room.is_enough and victim.smaller_sizes:
            room.give(victim.leaving(victim.least))
            sizes[victim.job] = victim.least
    for victim in sorted(victims, key=lambda one: one.suspend_usd):
        if not room.is_enough:
            room.give(victim.leaving(SUSPENDED, before=victim.least))
            sizes[victim.job] = SUSPENDED
    if not room.is_enough:
        return NOBODY
    _spare_suspensions(room, victims, sizes)
    _spare_workers(room, victims, sizes)
    return Preemption(sizes, sum((_price(one, sizes) for one in victims), NO_USD))


def _spare_suspensions(room: _Room, victims: Iterable[Victim], sizes: dict[str, int]) -> None:
    for victim in sorted(victims, key=lambda one: one.suspend_usd, reverse=True):
        if sizes.get(victim.job) != SUSPENDED:
            continue
        if not room.spare(victim.leaving(SUSPENDED, before=victim.least)):
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
    if size is None:
        return NO_USD
    return victim.suspend_usd if size == SUSPENDED else victim.shrink_usd


def _gain(claim: Claim, victim: Victim, size: int) -> int:
    """Return how many workers of the claim find room by this job alone, or a part of them.

    Two jobs may make room on a node together, where one alone makes none: then any part counts.
    """
    room, leaving = _Room(claim), victim.leaving(size)
    room.give(leaving)
    return room.gained or int(any(one.node in claim.free for one in leaving))


def _by_price(victim: Victim) -> tuple[Usd, Usd]:
    return victim.shrink_usd if victim.smaller_sizes else victim.suspend_usd, victim.suspend_usd


def _by_share(claim: Claim) -> Callable[[Victim], tuple[float, Usd]]:
    def key(victim: Victim) -> tuple[float, Usd]:
        price = _by_price(victim)[0]
        gained = _gain(claim, victim, victim.least if victim.smaller_sizes else SUSPENDED)
        return float(price.exact) / max(gained, 1), price

    return key
