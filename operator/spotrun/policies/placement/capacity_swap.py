"""Replacement of workers: stable ones by spot if that saves money, spot ones by stable if needed.

The old worker trains until the new one is ready. So its state has to survive the change: with
in-process recovery one worker sends it to the next, otherwise a checkpoint keeps it.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from spotrun.api.spec.placement import CapacityPolicy
from spotrun.policies.deadline.course import changeovers, course, works
from spotrun.policies.deadline.measurements import launched_at
from spotrun.policies.deadline.pacing import paid_off_seconds
from spotrun.policies.placement.on_demand_need import Needs
from spotrun.policies.placement.pool_choice import is_resting
from spotrun.policies.placement.replica_homes import homes, in_zone
from spotrun.policies.placement.supply import StayingWorkers, Supply
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View
from spotrun.state.world_members import all_in_process, some_unheard, world_members

CHECKPOINT_SECONDS = 600.0
"""The time between two checkpoints that is assumed where the trainer chooses it; workers are not
moved more often than this to save money."""
_LAUNCHES = 3.0
"""Without a deadline an on-demand worker stays for this many changeovers before it is given
back."""


def returnable(
    view: View, status: JobState, size: int, now: StayingWorkers, available: Supply
) -> tuple[Worker, ...]:
    """The stable workers that have been there long enough to be given back, the longest first."""
    placement = view.job.spec.placement
    is_begun = now.number > size  # a change that has begun continues, even if the market changes
    if placement.capacity is not CapacityPolicy.MIXED or not (available.has_spot_now or is_begun):
        return ()
    stays_seconds = _stays_seconds(view, status)
    dearer = [worker for worker in now.stable if _is_dearer(available, worker)]
    oldest_first = sorted(dearer, key=lambda w: -_age_seconds(view, w))
    old = [worker for worker in oldest_first if _age_seconds(view, worker) >= stays_seconds]
    # No worker of a gang that does not train leaves; one that trains is seldom disturbed.
    trains = any(works(view, status, worker) for worker in old)
    return tuple(old) if is_begun or (trains and _may_move(view, status)) else ()


def given_up(
    view: View, status: JobState, size: int, now: StayingWorkers, needed: Needs
) -> frozenset[int]:
    """Return the spot workers to replace by stable ones; those that do not train yet come first."""
    too_many = needed.stable + len(now.spot) - size
    if too_many <= 0 or not needed.replaces_spot:
        return frozenset()
    idle_first = sorted(now.spot, key=lambda w: (works(view, status, w), -w.worker_id))
    can_go = _can_hand_over(view, status)
    chosen = [w for w in idle_first if can_go or not works(view, status, w)]
    found = [w for one in _replicas_within(view, chosen, now.spot, too_many) for w in one]
    # What is needed must be met, also if it is less than a whole replica.
    return frozenset(worker.worker_id for worker in found or chosen[:too_many])


def given_back(
    view: View, now: StayingWorkers, needed: Needs, old: Sequence[Worker], available: Supply
) -> frozenset[int]:
    """Return those of the stable workers that may be given back and are not needed.

    If other workers of the same replica are on spot, the zone of the replica must have spot.
    """
    excess = max(len(now.stable) - needed.stable, 0)
    with_spot = set(map(_replica_of, now.spot))
    return frozenset(
        worker.worker_id
        for replica in _replicas_within(view, old, now.stable, excess)
        if _replica_of(replica[0]) not in with_spot or _has_spot_beside(view, replica[0], available)
        for worker in replica
    )


def _replicas_within(
    view: View, chosen: Sequence[Worker], alike: Sequence[Worker], most: int
) -> list[list[Worker]]:
    """Return replicas all of whose workers in `alike` are chosen, with at most `most` workers."""
    if view.job.effective_workers.per_replica == 1:
        return [[worker] for worker in chosen[:most]]
    number = Counter(map(_replica_of, alike))
    groups: dict[int, list[Worker]] = {}
    for worker in chosen:
        groups.setdefault(_replica_of(worker), []).append(worker)
    found, left = [], most
    for replica, group in groups.items():
        if len(group) == number[replica] and len(group) <= left:
            found.append(group)
            left -= len(group)
    return found


def _replica_of(worker: Worker) -> int:
    """Return the replica of a worker; a worker without one counts as a replica of its own."""
    return -1 - worker.worker_id if worker.pod.replica is None else worker.pod.replica


def _has_spot_beside(view: View, worker: Worker, available: Supply) -> bool:
    home = homes(view).get(worker.pod.replica) if worker.pod.replica is not None else None
    if home is None:
        return True
    return any(not is_resting(view, one.pool) for one in in_zone(available.spot, home.zone))


def stays_wake_after_seconds(view: View, status: JobState, stable: Sequence[Worker]) -> list[float]:
    """Return when each of the stable workers has been there long enough."""
    stays_seconds = _stays_seconds(view, status)
    return [stays_seconds - _age_seconds(view, worker) for worker in stable]


def _is_dearer(available: Supply, worker: Worker) -> bool:
    """Whether a worker's node costs more than spot: a reserved node may cost almost nothing."""
    known = {one.pool.name: one for one in available.stable}
    mine = known.get(worker.node.pool) if worker.node is not None else None
    if mine is None or not mine.score.is_price_known:
        return True
    return any(spot.usd_per_work < mine.usd_per_work for spot in available.spot)


def _stays_seconds(view: View, status: JobState) -> float:
    """Return the least time that a stable worker stays: its launch must pay off."""
    way = course(view, status)
    usual_seconds, _ = changeovers(status.pace)
    return paid_off_seconds(way) if way is not None else _LAUNCHES * usual_seconds


def _age_seconds(view: View, worker: Worker) -> float:
    launched = launched_at(view, worker)
    return (view.now - launched) / timedelta(seconds=1) if launched is not None else 0.0


def _may_move(view: View, status: JobState) -> bool:
    """Whether workers that train may be moved to save money: without a loss, and not too often."""
    place, world = view.job.spec.checkpoint, status.world
    if not _can_hand_over(view, status):
        return False
    if world.formed_at is None:
        return True
    every = place.every.duration if place is not None else None
    interval_seconds = every.seconds if every is not None else CHECKPOINT_SECONDS
    return (view.now - world.formed_at) / timedelta(seconds=1) >= interval_seconds


def _can_hand_over(view: View, status: JobState) -> bool:
    members = world_members(view, status)
    if view.job.spec.checkpoint is not None or some_unheard(view, members):
        return True  # a new leader does not cancel a change before it has heard from all workers
    return len(members) > 1 and all_in_process(members)
