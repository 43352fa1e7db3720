"""Replicas: whole copies of the model, of `perReplica` workers that each hold a part of it.

Which part that is a worker's *slot* says, and it keeps it for ever: its process is built around it.
Where every worker holds a whole model all have slot 0.

The safest worker is rank 0, and the ring of all ranks seldom crosses zones.
"""

from collections.abc import Iterable, Sequence

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.workers import Workers
from spotrun.state.sizes import largest
from spotrun.state.snapshot import Worker
from spotrun.state.view import View


def slot_of(worker: Worker, workers: Workers) -> int:
    """The part of the model that a worker holds."""
    return worker.pod.slot % workers.per_replica


def by_slot(those: Iterable[Worker], workers: Workers) -> list[list[Worker]]:
    """Workers by the part that they hold, each in the order given."""
    slots: list[list[Worker]] = [[] for _ in range(workers.per_replica)]
    for worker in those:
        slots[slot_of(worker, workers)].append(worker)
    return slots


def whole(view: View, candidates: Sequence[Worker]) -> list[Worker]:
    """The largest world of those that is wanted and allowed: of each slot the first so many."""
    workers = view.job.effective_workers
    slots = by_slot(candidates, workers)
    there = min(map(len, slots)) * workers.per_replica
    replicas = largest(workers, min(there, view.limited_size)) // workers.per_replica
    inside = {worker.worker_id for slot in slots for worker in slot[:replicas]}
    return [worker for worker in candidates if worker.worker_id in inside]


def led_by(holders: Sequence[Worker], others: Sequence[Worker], workers: Workers) -> list[Worker]:
    """Put the first state holder of each slot first, and then the other workers."""
    first = [slot[0] for slot in by_slot(holders, workers) if slot]
    known = {worker.worker_id for worker in first}
    return [*first, *(worker for worker in others if worker.worker_id not in known)]


def holds_all(those: Sequence[Worker], workers: Workers) -> bool:
    """Whether they hold a whole model together."""
    return all(by_slot(those, workers))


def bring_all(holders: Iterable[Worker], chosen: Iterable[Worker], workers: Workers) -> bool:
    """Whether the chosen ones of the state holders hold a whole model together."""
    known = {worker.worker_id for worker in holders}
    return holds_all([worker for worker in chosen if worker.worker_id in known], workers)


def new_slots(staying: Sequence[Worker], workers: Workers, number: int) -> list[int]:
    """The slots that so many new workers get: those that fewest of the staying have come first."""
    counts = [len(slot) for slot in by_slot(staying, workers)]
    found = []
    for _ in range(number):
        slot = counts.index(min(counts))
        counts[slot] += 1
        found.append(slot)
    return found


def in_rank_order(chosen: Iterable[Worker], workers: Workers) -> tuple[Worker, ...]:
    """Replica by replica, each by slot: so a worker's rank always says which part it holds."""
    slots = by_slot(along_the_ring(chosen), workers)
    return tuple(worker for replica in zip(*slots, strict=True) for worker in replica)


def along_the_ring(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    """On-demand before spot, then by zone, node and worker id.

    Spot begins in the zone where on-demand ends: one crossing less for the ring.
    """
    ordered = sorted(workers, key=_place)
    stable = [worker for worker in ordered if not _place(worker)[0]]
    last = stable[-1].node if stable else None
    spot = ordered[len(stable) :]
    if last is None:
        return tuple(spot)
    return (*stable, *sorted(spot, key=lambda worker: _place(worker)[1] != last.zone))


def _place(worker: Worker) -> tuple[bool, str, str, int]:
    node = worker.node
    if node is None:
        return (True, "", "", worker.worker_id)
    return (node.capacity is Capacity.SPOT, node.zone, node.name, worker.worker_id)
