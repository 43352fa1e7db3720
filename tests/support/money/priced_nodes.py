"""Nodes and workers that cost something, for tests of decisions: a quarter of a node each."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_history import EVER, PriceHistory
from spotrun.money.shares import Resources
from spotrun.money.units import UsdPerHour
from spotrun.state.snapshot import Node, PodPhase
from tests.support.jobs.builders import NOW, JobBuilder

GIB = 2**30
WHOLE = Resources(Decimal(4), Decimal(16 * GIB))
QUARTER = Resources(Decimal(1), Decimal(4 * GIB))


def a_node(
    name: str = "a",
    usd_per_hour: str | None = "4",
    *,
    changes: tuple[tuple[datetime, str], ...] = (),
    capacity: Capacity = Capacity.ON_DEMAND,
    **node: Any,
) -> Node:
    """A node of known price, which may have changed; None: of unknown."""
    first = ((EVER, usd_per_hour), *changes) if usd_per_hour is not None else ()
    prices = tuple((moment, UsdPerHour(Decimal(price))) for moment, price in first)
    return Node(name, capacity=capacity, allocatable=WHOLE, prices=PriceHistory(prices), **node)


def at_work(job: JobBuilder, *worker_ids: int, node: Node | None = None, **pod: Any) -> JobBuilder:
    """Return the job with workers on a node for an hour; at $4 an hour for it they cost $1 each."""
    given: dict[str, Any] = {
        "requests": QUARTER,
        "scheduled_at": NOW - timedelta(hours=1),
        "created_at": NOW - timedelta(hours=2),
        **pod,
    }
    return job.with_workers(*worker_ids, node=node or a_node(), **given)


def ended(seconds_ago: float = 0.0, exit_code: int = 0) -> dict[str, Any]:
    """Return the fields of a pod whose containers have ended."""
    phase = PodPhase.FAILED if exit_code else PodPhase.SUCCEEDED
    return {"phase": phase, "ended_at": NOW - timedelta(seconds=seconds_ago)}
