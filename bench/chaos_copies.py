"""The workers that hold the parts of a model: whole copies of it, and who of them may be lost.

A worker keeps its part for ever. Where each holds the whole model there is one part, and every
worker is a copy.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence


def whole_copies(
    workers: Sequence[str], parts: Mapping[str, int], holders: Collection[str]
) -> list[str]:
    """Return as many copies as the workers make up, in rank order.

    Those that hold the state come before others; then the order is the workers' own.
    """
    by_part = [
        [worker for worker in workers if parts[worker] == part]
        for part in range(max(parts.values()) + 1)
    ]
    num_copies = min(map(len, by_part))
    chosen = [
        set(sorted(alike, key=lambda worker: worker not in holders)[:num_copies])
        for alike in by_part
    ]
    rows = (
        [worker for worker in alike if worker in those]
        for alike, those in zip(by_part, chosen, strict=True)
    )
    return [worker for copy in zip(*rows, strict=True) for worker in copy]


class Workers:
    """The workers of one training, by name; so many processes hold a copy of its model."""

    def __init__(self, shard: int) -> None:
        self.parts: dict[str, int] = {}  # of the model, of all that there ever were
        self.usable: list[str] = []  # also those without a mate
        self.members: list[str] = []  # of the newest world
        self.holders = set[str]()  # of the newest state, for certain
        self._shard = shard

    @property
    def can_lose(self) -> int:
        """The number of members that may be lost: a whole copy has to be left."""
        return len(self.members) - self._shard

    @property
    def idle(self) -> list[str]:
        """The workers that wait for a mate."""
        return [worker for worker in self.usable if worker not in self.members]

    @property
    def expendable(self) -> list[str]:
        """The members without whom the others still hold all of the state."""
        here = (worker for worker in self.members if worker in self.usable)
        return [worker for worker in here if self._are_all(self.holders - {worker})]

    @property
    def hold_all(self) -> bool:
        """Whether all of the newest state is held, for certain."""
        return self._are_all(self.holders)

    def _are_all(self, workers: Collection[str]) -> bool:
        return len({self.parts[worker] for worker in workers}) == self._shard

    def parts_of_joining_workers(self) -> list[int]:
        """Return the parts of which workers are missing; of a whole new copy if none is."""
        held = Counter(self.parts[worker] for worker in self.usable)
        lacking = [part for part in range(self._shard) if held[part] < max(held.values())]
        return lacking or [*range(self._shard)]

    def add(self, part: int) -> str:
        """Return the name of a new one."""
        worker = f"w{len(self.parts) + 1}"
        self.parts[worker] = part
        return worker

    def add_copy(self) -> list[str]:
        """Return the names of as many as hold a copy."""
        return [self.add(part) for part in range(self._shard)]

    def without(self, worker: str) -> list[str]:
        """Return the others that are usable."""
        return [each for each in self.usable if each != worker]

    def form(self, workers: list[str]) -> None:
        """Let these make up the next world, as far as each has its mates."""
        self.usable = workers
        self.members = whole_copies(workers, self.parts, self.holders)
        self.holders &= set(self.members)

    def lose(self, worker: str) -> None:
        """Note that it is dead."""
        self.usable = self.without(worker)
        self.holders.discard(worker)
