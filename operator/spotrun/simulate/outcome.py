"""The outcome of a replay: the nodes that it held, their cost, and whether it met the deadline."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.money.ledger import Segment, cost
from spotrun.simulate.market.virtual_market import Pool, VirtualMarket
from spotrun.simulate.scenario import Job

_HOUR = 3600.0
_LATE_SECONDS = 1e-3  # tolerance for rounding: less than this is not late


@dataclass(frozen=True)
class Lease:
    """Nodes of a pool, from the first second that is paid to the last."""

    pool: Pool
    start: float
    end: float
    nodes: int = 1
    was_taken: bool = False  # whether the platform took them away

    @property
    def node_hours(self) -> float:
        """The node-hours of the lease."""
        return (self.end - self.start) * self.nodes / _HOUR


@dataclass(frozen=True)
class Course:
    """The course of a replay."""

    leases: Sequence[Lease]
    finished: float | None  # None: it was given up, long after its deadline
    lost_seconds: float = 0.0  # work that was done and had to be repeated


@dataclass(frozen=True)
class Outcome:
    """The figures of a replay, as `spotrun simulate` prints them."""

    policy: str
    cost_usd: float
    finish_hours: float | None
    deadline_met: bool
    launches: int  # of nodes
    interruptions: int  # nodes taken away
    spot_hours: float  # node-hours
    on_demand_hours: float  # node-hours
    idle_hours: float  # hours without any node, before the end
    lost_work_hours: float

    @classmethod
    def of(cls, policy: str, course: Course, job: Job, market: VirtualMarket) -> "Outcome":
        """Measure a course: money with the ledger that also bills clusters, time by the clock."""
        finished, leases = course.finished, course.leases
        is_in_time = finished is not None and finished <= job.deadline_seconds + _LATE_SECONDS
        end = finished if finished is not None else max((one.end for one in leases), default=0.0)
        return cls(
            policy=policy,
            cost_usd=round(float(_cost(leases, market)), 6),
            finish_hours=round(finished / _HOUR, 6) if finished is not None else None,
            deadline_met=is_in_time,
            launches=sum(one.nodes for one in leases),
            interruptions=sum(one.nodes for one in leases if one.was_taken),
            spot_hours=_node_hours(leases, spot=True),
            on_demand_hours=_node_hours(leases, spot=False),
            idle_hours=round((end - _covered(leases)) / _HOUR, 6),
            lost_work_hours=round(course.lost_seconds / _HOUR, 6),
        )


def _cost(leases: Iterable[Lease], market: VirtualMarket) -> Decimal:
    segments = [
        Segment(
            worker_id=number,
            start=market.time(one.start),
            end=market.time(one.end),
            share=Decimal(one.nodes),
            history=one.pool.history,
        )
        for number, one in enumerate(leases)
    ]
    end = max((segment.end for segment in segments if segment.end), default=market.origin)
    return cost(segments, end).usd.decimal


def _node_hours(leases: Iterable[Lease], *, spot: bool) -> float:
    chosen = (one for one in leases if (one.pool.capacity is Capacity.SPOT) is spot)
    return round(sum((one.node_hours for one in chosen), 0.0), 6)


def _covered(leases: Iterable[Lease]) -> float:
    """Return the seconds with at least one node."""
    covered, until = 0.0, 0.0
    for one in sorted(leases, key=lambda lease: lease.start):
        covered += max(one.end - max(one.start, until), 0.0)
        until = max(until, one.end)
    return covered
