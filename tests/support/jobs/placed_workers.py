"""Workers on nodes of pools, and what is decided about where the next ones come from."""

from decimal import Decimal
from typing import Any

from spotrun.api.names import ConditionType, Reason
from spotrun.state.actions import Create, Placed, Remove, Withdraw
from spotrun.state.conditions import state
from spotrun.state.market import PoolFacts
from spotrun.state.stored.training import Pace, Progress
from spotrun.wire import Progress as Reported
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago, later
from tests.support.money.pool_builders import a_node_of, a_spot_pool, an_on_demand_pool

HOUR = 3600.0
SPOT, OD = a_spot_pool(), an_on_demand_pool()
DRY = a_spot_pool(available=False, retry_at=later(600))
REFUSED = {0: "cluster-autoscaler: pod didn't trigger scale-up: 1 max node group size reached"}
NO_NODE = {"unschedulable": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu"}


def places(job: JobBuilder) -> list[Placed]:
    """Return where the workers are asked for that are made."""
    return [action.place for action in job.decide().actions if isinstance(action, Create)]


def asked(job: JobBuilder) -> list[str | None]:
    """Return the capacity of each worker that is made."""
    return [place.capacity.value if place.capacity else None for place in places(job)]


def withdrawn(job: JobBuilder) -> list[tuple[int, str]]:
    """Return the waiting workers that are taken back, and why."""
    actions = job.decide().actions
    return [(one.worker_id, one.reason.value) for one in actions if isinstance(one, Withdraw)]


def removed(job: JobBuilder) -> list[tuple[int, str]]:
    """Return the workers that are deleted, and why."""
    actions = job.decide().actions
    return [(one.worker_id, one.reason.value) for one in actions if isinstance(one, Remove)]


def waiting(
    job: JobBuilder, *worker_ids: int, pools: tuple[PoolFacts, ...], seconds: float, **facts: Any
) -> JobBuilder:
    """Return the job with workers that were asked from these pools so long ago and have no node."""
    return job.with_workers(
        *worker_ids,
        node=None,
        asked=pools[0].capacity,
        pools=tuple(pool.name for pool in pools),
        created_at=ago(seconds),
        **facts,
    )


def working(job: JobBuilder, pool: PoolFacts, *worker_ids: int, hours: float = 1.0) -> JobBuilder:
    """Return the job with workers that train on nodes of a pool, which came so long ago."""
    made, known = job, job.status.progress
    step = known.step or 100
    for worker_id in worker_ids:
        node = a_node_of(pool, worker_id, ago(hours * HOUR))
        made = made.with_worker(
            worker_id,
            ready=True,
            arrived=1,
            node=node,
            created_at=ago(hours * HOUR + 60),
            progress=Reported(1, step, known.total_steps),
        )
    members = ",".join(str(worker_id) for worker_id in sorted(made.workers))
    return made.with_world(members, formed=hours * HOUR, store="10.0.0.1:1")


def lacking(job: JobBuilder, seconds: float) -> JobBuilder:
    """Return the job as one that has lacked nodes for this long."""
    kind = ConditionType.CAPACITY_AVAILABLE
    view = job.view(ago(seconds))
    return job.with_status(
        conditions=state(
            view, job.status, kind, Reason.WAITING_FOR_CAPACITY, "", holds=False
        ).conditions
    )


def due(
    hours_left: float, work_left: float, *, work: float = 48, workers: int = 1, **spec: Any
) -> JobBuilder:
    """Return a job with a deadline that needs all its workers; a step takes 1 s, and is saved."""
    done = work - work_left
    allowed = 60.0
    pace = Pace(step_seconds=Decimal(1), workers=1, changeovers=(600,), measured=9)
    deadline = {"finishWithin": f"{allowed:.0f}h"}
    job = a_job(workers, min=workers, checkpoint=ON_CLAIM, deadline=deadline, **spec)
    job = job.with_facts(created_at=ago((allowed - hours_left) * HOUR))
    progress = Progress(step=int(done * HOUR), total_steps=int(work * HOUR))
    return job.with_checkpoint(int(done * HOUR)).with_status(progress=progress, pace=pace)
