"""The operator's metrics with something to say for every one, as tests of what uses them need."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from prometheus_client.core import Metric

from spotrun.agents.answers import Published
from spotrun.api.capacitypool import Capacity
from spotrun.api.cost import Cost, PoolCost, Waste
from spotrun.api.field_types.amounts import Amount, Percent, SignedAmount
from spotrun.api.meta import ConditionStatus, ReasonText
from spotrun.api.names import LABEL_TEAM, ConditionType, Pricing
from spotrun.api.status_parts.storage_cost import StorageCost
from spotrun.kube.errors import Forbidden
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.metrics.pools import KnownPool
from spotrun.metrics.registry import Meter
from spotrun.money.price_history import NodePrice
from spotrun.money.units import Usd, UsdPerHour
from spotrun.policies.budget.spend.facts import Limit, SpendState
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.state.job_state import JobState
from spotrun.state.sizes import Order, Precedence
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.cost import Accumulators
from spotrun.state.stored.cost_codec import read_cost
from spotrun.state.stored.pools.pool_state import PoolState
from spotrun.state.stored.scaling import ScalingState
from spotrun.state.stored.statements import Condition
from spotrun.state.stored.training import AcknowledgedCheckpoint, LocalCheckpoint, Progress
from spotrun.state.stored.workers import Interruptions
from spotrun.wire import Metric as Measured
from tests.support.jobs.builders import a_job
from tests.support.jobs.published_jobs import job, peer, world
from tests.support.money.shared_limits import a_limit
from tests.support.tuning.searches import a_search

_MOMENT = datetime(2026, 3, 1, 8, tzinfo=UTC)


@dataclass(frozen=True)
class Exported:
    """One metric, as Prometheus names it."""

    name: str
    kind: str
    labels: frozenset[str]


@functools.cache
def exported() -> Mapping[str, Exported]:
    """Every metric of the operator by name; of a histogram the name without _bucket."""
    found = [_exported(family) for family in full_meter().registry.collect()]
    return {one.name: one for one in found}


def _exported(family: Metric) -> Exported:
    assert family.samples, f"{family.name} says nothing: let the job below give it a value"
    kind = "gauge" if family.type == "info" else family.type
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    labels = {label for sample in family.samples for label in sample.labels} - {"le"}
    return Exported(family.name + suffix, kind, frozenset(labels))


def full_meter() -> Meter:
    """Return the meter of a busy leader."""
    queue: WorkQueue[str] = WorkQueue()
    meter = Meter(
        lambda: [full_job()],
        lambda: True,
        {"trainingjobs": queue},
        searches=lambda: [full_search()],
        pools=lambda: [_POOL],
        limits=lambda: [("ml", full_limit())],
    )
    meter.count_request("world", 200)
    meter.preemptions.count(*a_preemption())
    meter.agent_connections.labels("known").set(1)
    with pytest.raises(Forbidden), meter.reconciling():
        raise Forbidden("no")
    return meter


def full_limit() -> Limit:
    """A SpendLimit of which everything is known."""
    state = SpendState(spent_usd=Usd(5), reserved_usd=Usd(1), forecast_usd=Usd(9))
    return replace(a_limit(), state=state)


def a_preemption(*, workers: int = 1, usd: int = 2) -> tuple[JobSnapshot, JobState]:
    """Return a job that is told to keep so many workers for another one, and its next status."""
    order = Order("ml/high", "u", workers, "it is the cheapest", Usd(usd))
    low = a_job(2, min=1).training(0, 1).with_facts(namespace="web")
    told = low.with_facts(precedence=Precedence(order=order))
    return told.snapshot(), told.decide().status


def full_search() -> TuningSnapshot:
    """A search of which everything is known."""
    built = a_search(budget={"maxCostUsd": "30"}).with_trial(value=0.5, cost="12").with_job(0)
    return replace(built.snapshot(), status=built.decide().status)


def full_job() -> Published:
    """A job of which everything is known."""
    bare = job(world("0-1"), pods={0: peer(0)})
    status = replace(
        bare.status,
        progress=Progress(step=420, total_steps=1000, samples_per_second=Decimal("12.5")),
        checkpoint=AcknowledgedCheckpoint(name="step-400.g1", step=400, time=_MOMENT),
        local_checkpoint=LocalCheckpoint(step=415, time=_MOMENT),
        interruptions=Interruptions(count=2, lost_steps=7),
        conditions=(_condition(ConditionType.QUEUED), _condition(ConditionType.WITHIN_BUDGET)),
        cost=read_cost(_COST),
        scaling=_SCALING,
        accumulators=Accumulators(unpriced_seconds=Decimal(60), useful_usd=Usd(Decimal("11.2"))),
    )
    return Published(
        namespace=bare.namespace,
        name=bare.name,
        uid=bare.uid,
        status=status,
        peers=bare.peers,
        processes=1,
        cost_labels={LABEL_TEAM: "vision"},
        placed={("g5-spot", "Spot"): 1},
        metrics=(Measured("loss", 2.5),),
        budget_usd=Decimal(50),
        saves=True,
    )


_POOL = KnownPool(
    "g5-spot",
    Capacity.SPOT,
    PoolState(
        nodes=1,
        price=NodePrice(usd_per_hour=UsdPerHour(Decimal("0.42"))),
        interruptions_per_hour=Decimal("0.3"),
    ),
)
_COST = Cost(
    usd=Amount("12.5"),
    usd_per_hour=Amount("3"),
    spot_usd=Amount("7.5"),
    on_demand_usd=Amount("20"),
    saved_usd=SignedAmount("7.5"),
    corrected_usd=SignedAmount("-0.1"),
    lost_work_usd=Amount("0.5"),
    idle_usd=Amount("0.2"),
    estimated_transfer_usd=Amount("0.4"),
    by_pool=(PoolCost(pool="g5-spot", usd=Amount("7.5")),),
    waste=Waste(redone_usd=Amount("0.3"), peers_usd=Amount("0.6")),
    storage=StorageCost(
        stored_usd=Amount("0.2"),
        requests_usd=Amount("0.05"),
        transfer_usd=Amount("0.01"),
        stored_bytes=10**10,
        usd_per_month=Amount("0.23"),
    ),
    goodput=Percent("89%"),
    interruption_usd=Amount("0.63"),
    forecast_usd=Amount("40"),
    budget_used_percent=Percent("25%"),
    pricing=Pricing.PARTIAL,
)


_SCALING = ScalingState(
    size=2, utilization={"GPU": Decimal("0.91")}, decisions={"UtilizationHigh": 3}
)


def _condition(kind: ConditionType) -> Condition:
    return Condition(
        type=ReasonText(kind.value),
        status=ConditionStatus.TRUE,
        last_transition_time=_MOMENT,
        reason=ReasonText("Training"),
        message="",
    )
