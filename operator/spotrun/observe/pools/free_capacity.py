"""Free room for more workers: nodes that are alike are counted, not examined one by one.

A cluster of thousands of nodes has few kinds of them, and most are either full or empty; so the
answer for a job takes microseconds, however many nodes there are.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from spotrun.api.capacitypool import Toleration
from spotrun.api.names import HOST_LABEL
from spotrun.money.shares import Resources, left, times_in
from spotrun.observe.kube_objects import Taint
from spotrun.observe.nodes.cloud_labels import Labels
from spotrun.observe.pools.fit import Demand, suits

_ITS_OWN = frozenset({HOST_LABEL})


@dataclass(frozen=True)
class Kind:
    """The kind of a node, which decides whether a worker may run there: taints, shared labels."""

    labels: frozenset[tuple[str, str]]
    taints: tuple[Taint, ...] = ()

    @classmethod
    def of(cls, labels: Labels, taints: tuple[Taint, ...] = ()) -> "Kind":
        """Return the kind of a node, without its host name: no worker asks for a kind by that."""
        return cls(frozenset(one for one in labels.items() if one[0] not in _ITS_OWN), taints)


@dataclass(frozen=True)
class Slot:
    """The room left on a node."""

    kind: Kind
    free: Resources
    is_empty: bool  # it has no workers


class Room:
    """The room left on the nodes of each pool that may be given workers."""

    def __init__(self) -> None:
        self._slots: dict[str, Counter[Slot]] = defaultdict(Counter)
        self._of_node: dict[str, tuple[str, Slot]] = {}
        self._strays: dict[str, Resources] = {}
        self._kinds_of_strays: Counter[Resources] = Counter()
        self._promised: dict[str, Counter[Resources]] = {}

    def put(self, node: str, pool: str | None, slot: Slot | None) -> None:
        """Set the room of a node; None: it is in no pool, or may not get workers."""
        self._forget_stray(node)
        if (known := self._of_node.pop(node, None)) is not None:
            self._slots[known[0]][known[1]] -= 1
            if not self._slots[known[0]][known[1]]:
                del self._slots[known[0]][known[1]]
        if pool is not None and slot is not None:
            self._of_node[node] = (pool, slot)
            self._slots[pool][slot] += 1

    def put_stray(self, node: str, has: Resources) -> None:
        """Set the resources of a node that is in no pool, used or not."""
        self.put(node, None, None)
        self._strays[node] = has
        self._kinds_of_strays[has] += 1

    @property
    def strays(self) -> tuple[Resources, ...]:
        """Return the resources of nodes in no pool, each kind once."""
        return tuple(self._kinds_of_strays)

    def promise(self, pool: str, requests: Resources, number: int) -> None:
        """Reserve room for this many more workers, or release it if the number is negative."""
        promised = self._promised.setdefault(pool, Counter())
        promised[requests] += number
        if not promised[requests]:
            del promised[requests]
        if not promised:
            del self._promised[pool]

    def is_promised(self, pool: str) -> bool:
        """Whether room in a pool is reserved for workers that are not on its nodes yet."""
        return pool in self._promised

    def slots(self, pool: str, demand: Demand, further: tuple[Toleration, ...] = ()) -> int:
        """Count how many more workers fit on the pool's nodes, besides those promised room."""
        slots = self._slots.get(pool, Counter[Slot]())
        for requests, number in self._promised.get(pool, {}).items():
            slots = _without(slots, requests, number)
        return sum(
            count * _fits(demand.requests, slot)
            for slot, count in slots.items()
            if lets_in(demand, slot.kind, further)
        )

    def kinds(self, pool: str) -> Iterable[Kind]:
        """The kinds of nodes of a pool."""
        return {slot.kind for slot in self._slots.get(pool, ())}

    def _forget_stray(self, node: str) -> None:
        if (known := self._strays.pop(node, None)) is not None:
            self._kinds_of_strays[known] -= 1
            self._kinds_of_strays = +self._kinds_of_strays


def _without(slots: Counter[Slot], requests: Resources, number: int) -> Counter[Slot]:
    """Return the room left after these workers are placed on as few nodes as possible."""
    result: Counter[Slot] = Counter()
    for slot, count in slots.items():
        fits = min(_fits(requests, slot), number)
        filled = min(number // fits, count) if fits else 0
        result[_taken(slot, requests, fits)] += filled
        number -= filled * fits
        if fits and number and filled < count:
            result[_taken(slot, requests, number)] += 1
            filled, number = filled + 1, 0
        result[slot] += count - filled
    return +result


def _taken(slot: Slot, requests: Resources, number: int) -> Slot:
    taken = Resources(requests.cpu * number, requests.memory * number, requests.gpus * number)
    return replace(slot, free=left(slot.free, taken), is_empty=slot.is_empty and not number)


def _fits(requests: Resources, slot: Slot) -> int:
    """Return how many such workers fit; a worker that requests nothing gets a node for itself."""
    if requests == Resources():
        return int(slot.is_empty)
    return times_in(requests, slot.free)


@functools.lru_cache(maxsize=4096)
def lets_in(demand: Demand, kind: Kind, further: tuple[Toleration, ...] = ()) -> bool:
    """Whether nodes of a kind let such a worker in, regardless of room."""
    return suits(demand, dict(kind.labels), kind.taints, further)
