"""The interruptions of a pool: nodes that were taken away; those within minutes are one event."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from spotrun.policies.pool.lifetimes import Life
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_state import PoolInterruption, PoolState

BULK = timedelta(minutes=5)
"""Nodes that are taken within this time are one interruption: markets take 7 to 11 of 16 nodes at a
time."""
DAY = timedelta(hours=24)
_KEPT = 64


def learn_interruptions(pool: PoolSnapshot, status: PoolState, now: datetime) -> PoolState:
    """Add the nodes that were taken away to the events of the last day."""
    known = list(status.interruptions)
    for at, life in sorted(_taken(pool), key=lambda one: one[0]):
        hours = Decimal(round(min(life.seconds, DAY.total_seconds()))) / 3600
        if known and at - known[-1].time < BULK:
            last = known[-1]
            together = round(last.node_hours + hours, 2)
            known[-1] = replace(last, nodes=last.nodes + 1, node_hours=together)
        else:
            known.append(PoolInterruption(time=at, nodes=1, node_hours=round(hours, 2)))
    recent = [one for one in known if now - one.time < DAY]
    kept = (recent or known[-1:])[-_KEPT:]
    return replace(status, interruptions=tuple(kept), interruptions_24h=len(recent))


def _taken(pool: PoolSnapshot) -> list[tuple[datetime, Life]]:
    ended = ((life.ended_at, life) for life in pool.lives if life.taken)
    return [(at, life) for at, life in ended if at is not None and pool.is_news(at)]
