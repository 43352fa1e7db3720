"""The capacity that a job can get now, and that it has: ranked pools, and workers by capacity."""

from dataclasses import dataclass, fields
from datetime import timedelta

from spotrun.api.capacitypool import Capacity
from spotrun.policies.placement.free_capacity import (
    FIXED_SECONDS,
    TRIED_SECONDS,
    is_scaled,
    lacked_seconds,
    some_room,
)
from spotrun.policies.placement.pool_choice import below_on_demand, is_resting, to_be_had
from spotrun.policies.placement.ranking import Ranked, rank
from spotrun.policies.pool.availability import TURNED_DOWN_SECONDS
from spotrun.policies.pool.eligibility import Offers, offers
from spotrun.state.job_state import JobState
from spotrun.state.market import PoolFacts
from spotrun.state.snapshot import Worker
from spotrun.state.view import View

SCALED_SECONDS = 600.0
"""A node from an autoscaler may take this long to come, while that time is not measured."""


@dataclass(frozen=True)
class Supply:
    """The pools that can take a worker, the best first."""

    spot: tuple[Ranked, ...] = ()
    stable: tuple[Ranked, ...] = ()
    knows_spot: bool = False  # whether the market has any spot pool at all
    why_none: str = ""
    has_spot_now: bool = False  # whether some of these spot pools does not rest

    @property
    def is_empty(self) -> bool:
        """Whether no known pool can take a worker."""
        return not (self.spot or self.stable)


@dataclass(frozen=True)
class StayingWorkers:
    """The workers that stay, by capacity and by whether they have a node."""

    spot: tuple[Worker, ...] = ()
    stable: tuple[Worker, ...] = ()
    waiting_for_spot: tuple[Worker, ...] = ()
    waiting_for_stable: tuple[Worker, ...] = ()
    waiting_for_any: tuple[Worker, ...] = ()

    @property
    def num_placed(self) -> int:
        """The number of workers with a node."""
        return len(self.spot) + len(self.stable)

    @property
    def number(self) -> int:
        """The number of all these workers."""
        waiting = (self.waiting_for_spot, self.waiting_for_stable, self.waiting_for_any)
        return self.num_placed + sum(map(len, waiting))

    def without(self, worker_ids: frozenset[int]) -> "StayingWorkers":
        """Return the others."""
        if not worker_ids:
            return self

        def others(those: tuple[Worker, ...]) -> tuple[Worker, ...]:
            return tuple(worker for worker in those if worker.worker_id not in worker_ids)

        return StayingWorkers(**{one.name: others(getattr(self, one.name)) for one in fields(self)})


def supply(view: View, status: JobState, new: int) -> Supply:
    """Return what the market offers if so many new workers must come."""
    return view.once(("supply", new), (status.pace,), lambda: _supply(view, status, new))


def offered(view: View) -> Offers:
    """The pools that can take a worker."""
    return view.once_unlimited("offers", (), lambda: offers(view.job))


def _supply(view: View, status: JobState, new: int) -> Supply:
    found = offered(view)
    stable = rank(view, status, found.stable, new)
    rivals = [one for one in stable if to_be_had(view, one.pool)]
    spot = below_on_demand(view, rank(view, status, found.spot, new), rivals)
    return Supply(
        tuple(spot),
        tuple(stable),
        knows_spot=any(pool.capacity is Capacity.SPOT for pool in view.job.market.pools),
        why_none=found.why_none,
        has_spot_now=any(not is_resting(view, one.pool) for one in spot),
    )


def staying_workers(view: View) -> StayingWorkers:
    """Return the workers that stay, by capacity."""
    return view.once_unlimited("staying workers", (), lambda: _staying_workers(view))


def _staying_workers(view: View) -> StayingWorkers:
    placed = [w for w in view.staying if w.node is not None]
    waiting = [w for w in view.staying if w.node is None]
    return StayingWorkers(
        spot=tuple(w for w in placed if w.node and w.node.capacity is Capacity.SPOT),
        stable=tuple(w for w in placed if w.node and w.node.capacity is not Capacity.SPOT),
        waiting_for_spot=tuple(w for w in waiting if w.pod.asked is Capacity.SPOT),
        waiting_for_stable=tuple(w for w in waiting if w.pod.asked not in {Capacity.SPOT, None}),
        waiting_for_any=tuple(w for w in waiting if w.pod.asked is None),
    )


def waits_seconds(view: View, worker: Worker) -> float:
    """Return for how long a worker has been waiting for a node."""
    if worker.pod.created_at is None:
        return 0.0
    return (view.now - worker.pod.created_at) / timedelta(seconds=1)


def patience_seconds(view: View, worker: Worker) -> float:
    """Return how long a worker may wait before other pools are asked."""
    if worker.worker_id in view.job.turned_down:
        return TURNED_DOWN_SECONDS
    pools = [pool for name in worker.pod.pools if (pool := view.job.market.pool(name))]
    if len(pools) == 1 and pools[0].free_slots > 0:
        return FIXED_SECONDS  # it was sent there because the pool has room
    return max((_provision_seconds(view, pool) for pool in pools), default=SCALED_SECONDS)


def scheduler_seconds_left(view: View, worker: Worker) -> float:
    """Return how long the scheduler still has to find a node; after that, there is none.

    The job must be known to lack nodes for as long: before that, reported room is believed.
    """
    if not worker.pod.unschedulable or not some_room(view):
        return float("inf")
    return TRIED_SECONDS - min(waits_seconds(view, worker), lacked_seconds(view))


def _provision_seconds(view: View, pool: PoolFacts) -> float:
    if pool.provision_seconds is not None:
        return max(pool.provision_seconds, FIXED_SECONDS)
    return SCALED_SECONDS if is_scaled(view) else FIXED_SECONDS
