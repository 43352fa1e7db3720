"""Replicas: whole copies of the model, each on `perReplica` workers that hold a part of it.

A worker's *slot* says which part it holds. It never changes, because the process is built for it.
If every worker holds a whole model, all have slot 0.

A worker is placed beside the others of one replica, which its pod's label names, so that they share
a zone or a rack. The label says where it is, not with which workers it trains: if two replicas each
lost a different part, the remaining workers make up one whole copy.

The safest worker is rank 0, and the ring of all ranks seldom crosses zones.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
    """The largest wanted and allowed world of these workers: the first ones of each slot."""
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


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the model that a new worker will hold, and the replica beside which it is."""

    slot: int
    replica: int | None = None  # below 0: a new one; None: the job has no replicas

    @property
    def is_new(self) -> bool:
        """Whether its replica is a new one."""
        return self.replica is not None and self.replica < 0


def by_replica(those: Iterable[Worker], workers: Workers) -> dict[int, list[Worker]]:
    """Workers by the replica beside which they were placed, each in the order given."""
    found: dict[int, list[Worker]] = {}
    if workers.per_replica == 1:
        return found
    for worker in those:
        if worker.pod.replica is not None:
            found.setdefault(worker.pod.replica, []).append(worker)
    return found


def together(those: Sequence[Worker], workers: Workers) -> list[Worker]:
    """Put the workers of complete replicas first; otherwise the order is kept."""
    replicas = by_replica(those, workers).values()
    whole_ones = {w.worker_id for one in replicas if holds_all(one, workers) for w in one}
    return sorted(those, key=lambda worker: worker.worker_id not in whole_ones)


def new_parts(staying: Sequence[Worker], workers: Workers, number: int) -> list[Part]:
    """The parts that so many new workers get, first the part that the fewest staying workers hold.

    Each joins the fullest replica that lacks its part; if no replica lacks it, a new one begins.
    """
    if workers.per_replica == 1:
        return [Part(0)] * number
    counts = [len(slot) for slot in by_slot(staying, workers)]
    parts = {
        replica: {slot_of(worker, workers) for worker in members}
        for replica, members in by_replica(staying, workers).items()
    }
    parts = {name: there for name, there in parts.items() if len(there) < workers.per_replica}
    found, new = [], -1
    for _ in range(number):
        slot = counts.index(min(counts))
        counts[slot] += 1
        open_ones = [replica for replica, there in parts.items() if slot not in there]
        replica = min(open_ones, key=lambda one: (one < 0, -len(parts[one]), one), default=new)
        new -= replica == new
        there = parts.setdefault(replica, set())
        there.add(slot)
        if len(there) == workers.per_replica:
            del parts[replica]
        found.append(Part(slot, replica))
    return found


def in_rank_order(chosen: Iterable[Worker], workers: Workers) -> tuple[Worker, ...]:
    """Replica by replica, each by slot, so that a worker's rank always gives the part it holds.

    Workers that were placed as one replica train as one; of the rest, those of a zone do.
    """
    ring = along_the_ring(chosen)
    position = {worker.worker_id: rank for rank, worker in enumerate(ring)}
    replicas, rest = _whole_of(by_replica(ring, workers).values(), ring, workers)
    zones: dict[str, list[Worker]] = {}
    for worker in rest:
        zones.setdefault(worker.node.zone if worker.node is not None else "", []).append(worker)
    near, far = _whole_of(zones.values(), rest, workers)
    replicas += [*near, *zip(*by_slot(far, workers), strict=True)]
    replicas.sort(key=lambda replica: position[replica[0].worker_id])
    return tuple(worker for replica in replicas for worker in replica)


def replicas_of(members: Sequence[Worker], workers: Workers) -> Iterator[Sequence[Worker]]:
    """Return the replicas of the workers that train, which are given by rank."""
    apart = workers.per_replica
    return (members[first : first + apart] for first in range(0, len(members), apart))


def _whole_of(
    groups: Iterable[Sequence[Worker]], those: Sequence[Worker], workers: Workers
) -> tuple[list[tuple[Worker, ...]], list[Worker]]:
    """Return the whole replicas within these groups, and the remaining workers."""
    found = [one for group in groups for one in zip(*by_slot(group, workers), strict=False)]
    inside = {worker.worker_id for one in found for worker in one}
    return found, [worker for worker in those if worker.worker_id not in inside]


def along_the_ring(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    """On-demand before spot, then by zone, node and worker id.

    Spot begins in the zone where on-demand ends, so the ring crosses zones once less.
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
