"""Replicas of which one lacks a worker, and what is decided about where it comes from."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from spotrun.state.actions import Create, Remove, Withdraw
from spotrun.state.market import PoolFacts
from spotrun.state.stored.training import Pace
from tests.support.jobs.builders import JobBuilder, a_job, ago, later
from tests.support.money.pool_builders import a_node_of, a_spot_pool, on_market

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
REGION = "us-east-1"
A = a_spot_pool("a", 0.4, zone="us-east-1a", region=REGION)
B = a_spot_pool("b", 0.3, zone="us-east-1b", region=REGION)
DRY = replace(A, available=False, retry_at=later(600))


def a_member(
    job: JobBuilder, worker_id: int, pool: PoolFacts | None, *, replica: int, **worker: Any
) -> JobBuilder:
    node = a_node_of(pool, worker_id, ago(3600)) if pool is not None else None
    facts = {"slot": worker_id % 2, "replica": replica, "created_at": ago(3600), **worker}
    return job.with_worker(worker_id, node=node, asked=A.capacity, **facts)


def broken(*pools: PoolFacts, **spec: Any) -> JobBuilder:
    """Two replicas of two: one trains in zone a, the other has lost its second worker there."""
    job = on_market(a_job(4, min=2, max=4, perReplica=2, **spec), *pools)
    job = job.with_checkpoint().training(0, 1)
    for worker_id in (0, 1):
        job = a_member(job, worker_id, A, replica=0, ready=True, arrived=1)
    job = a_member(job, 2, A, replica=2, ready=True, ready_for=600)
    return job.with_status(next_worker_id=4, settled=job.status.settled.union([3]))


def late(job: JobBuilder, seconds: float = 3600) -> JobBuilder:
    """The same, where a new second worker has been waiting for a node for so long."""
    job = a_member(job, 4, None, replica=2, created_at=ago(seconds), pools=("a",))
    pod = replace(job.workers[4].pod, slot=1)
    workers = {**job.workers, 4: replace(job.workers[4], pod=pod)}
    return replace(job, workers=workers).with_status(next_worker_id=5)


def made(job: JobBuilder) -> list[tuple[int, int | None, tuple[str, ...]]]:
    """Return slot, replica and pools of each worker that is made."""
    new = [action for action in job.decide().actions if isinstance(action, Create)]
    return [(one.slot, one.replica, one.place.required) for one in new]


def let_go(job: JobBuilder) -> list[int]:
    actions = job.decide().actions
    return [one.worker_id for one in actions if isinstance(one, Remove | Withdraw)]


def said(job: JobBuilder) -> tuple[str, str]:
    last = job.decide().status.decisions[-1]
    return last.what, last.why


def sends(job: JobBuilder, megabytes: float) -> JobBuilder:
    """The same of workers that send so much in a step of a second."""
    pace = Pace(step_seconds=Decimal(1), workers=2, changeovers=(600,), measured=9)
    return job.with_status(pace=pace).with_facts(sync_bytes_per_step=megabytes * 1e6)
