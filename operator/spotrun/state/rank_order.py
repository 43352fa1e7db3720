"""The order of ranks: the safest worker is rank 0, and the ring seldom crosses zones."""

from collections.abc import Iterable

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.workers import Workers
from spotrun.state.replicas import by_slot
from spotrun.state.snapshot import Worker


def in_rank_order(chosen: Iterable[Worker], workers: Workers) -> tuple[Worker, ...]:
    """Replica by replica, each by slot: so a worker's rank always says which part it holds."""
    slots = by_slot(along_the_ring(chosen), workers)
    return tuple(worker for replica in zip(*slots, strict=True) for worker in replica)


def along_the_ring(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    """On-demand before spot, then by zone, node and serial.

    Spot begins in the zone where on-demand ends: one crossing less for the ring.
    """
    ordered = sorted(workers, key=_place)
    lasting = [worker for worker in ordered if not _place(worker)[0]]
    last = lasting[-1].node if lasting else None
    spot = ordered[len(lasting) :]
    if last is None:
        return tuple(spot)
    return (*lasting, *sorted(spot, key=lambda worker: _place(worker)[1] != last.zone))


def _place(worker: Worker) -> tuple[bool, str, str, int]:
    node = worker.node
    if node is None:
        return (True, "", "", worker.serial)
    return (node.capacity is Capacity.SPOT, node.zone, node.name, worker.serial)
