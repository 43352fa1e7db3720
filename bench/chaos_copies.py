"""The workers that hold the parts of a model: its whole copies, and which workers may be lost.

A worker always keeps its part. If each worker holds the whole model, there is one part, and every
worker is a copy.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence


def whole_copies(
    workers: Sequence[str], parts: Mapping[str, int], holders: Collection[str]
) -> list[str]:
    """Return the whole copies that these workers form, in rank order.

    State holders come first; apart from that the order of the workers is kept.
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
    """The workers of one training, by name; `shard` processes together hold a copy of its model."""

    def __init__(self, shard: int) -> None:
        self.parts: dict[str, int] = {}  # the part of the model, for all workers that ever existed
        self.usable: list[str] = []  # including those without a mate
        self.members: list[str] = []  # the members of the newest world
        self.holders = set[str]()  # certainly hold the newest state
        self._shard = shard

    @property
    def can_lose(self) -> int:
        """The number of members that may be lost: a whole copy must remain."""
        return len(self.members) - self._shard

    @property
    def idle(self) -> list[str]:
        """The workers that wait for a mate."""
        return [worker for worker in self.usable if worker not in self.members]

    @property
    def expendable(self) -> list[str]:
        """The members without which the others still hold the whole state."""
        here = (worker for worker in self.members if worker in self.usable)
        return [worker for worker in here if self._are_all(self.holders - {worker})]

    @property
    def hold_all(self) -> bool:
        """Whether the members certainly hold the whole newest state."""
        return self._are_all(self.holders)

    def _are_all(self, workers: Collection[str]) -> bool:
        return len({self.parts[worker] for worker in workers}) == self._shard

    def parts_of_joining_workers(self) -> list[int]:
        """Return the parts without a worker; all parts of a new copy if none is missing."""
        held = Counter(self.parts[worker] for worker in self.usable)
        lacking = [part for part in range(self._shard) if held[part] < max(held.values())]
        return lacking or [*range(self._shard)]

    def add(self, part: int) -> str:
        """Add a worker with this part, and return its name."""
        worker = f"w{len(self.parts) + 1}"
        self.parts[worker] = part
        return worker

    def add_copy(self) -> list[str]:
        """Add the workers of a whole copy, and return their names."""
        return [self.add(part) for part in range(self._shard)]

    def without(self, worker: str) -> list[str]:
        """Return the other usable workers."""
        return [each for each in self.usable if each != worker]

    def form(self, workers: list[str]) -> None:
        """Make a new world of these workers, without those that lack mates."""
        self.usable = workers
        self.members = whole_copies(workers, self.parts, self.holders)
        self.holders &= set(self.members)

    def lose(self, worker: str) -> None:
        """Record that a worker is dead."""
        self.usable = self.without(worker)
        self.holders.discard(worker)
