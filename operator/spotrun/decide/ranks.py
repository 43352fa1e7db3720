"""Who gets which rank: the safest worker is rank 0, and the ring seldom crosses zones."""

from collections.abc import Iterable

from spotrun.api.capacitypool import Capacity
from spotrun.decide.snapshot import Worker


def in_rank_order(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    """On-demand before spot, then by zone, node and serial."""
    return tuple(sorted(workers, key=_place))


def _place(worker: Worker) -> tuple[bool, str, str, int]:
    node = worker.node
    if node is None:
        return (True, "", "", worker.serial)
    return (node.capacity is Capacity.SPOT, node.zone, node.name, worker.serial)
