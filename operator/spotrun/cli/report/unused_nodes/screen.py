"""Nodes that no workload uses, by pool and one by one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from spotrun.api.field_types.amounts import Amount
from spotrun.cli.report.unused_nodes.facts import Unused
from spotrun.cli.text.look import Look
from spotrun.cli.text.table import Column, table
from spotrun.cli.text.words import plain_usd, span

NO_POOL = "(none)"


@dataclass(frozen=True)
class Costly:
    """An unused node with its pool and its price."""

    node: Unused
    pool: str
    usd_per_hour: Decimal | None  # None: unknown


def screen(found: Sequence[Costly], nodes_of: dict[str, int], look: Look) -> list[str]:
    """Return the lines to print; `nodes_of` counts all nodes by pool."""
    if not found:
        return [f"Each of the {sum(nodes_of.values())} nodes is used by a workload, or is new."]
    pools = sorted({one.pool for one in found})
    by_pool = [[one for one in found if one.pool == pool] for pool in pools]
    heads = (
        Column("POOL", is_kept=True),
        Column("NODES", is_number=True),
        Column("UNUSED", is_number=True),
        Column("LOST($/HR)", is_number=True, is_kept=True),
    )
    sums = [
        [pool, str(nodes_of.get(pool, 0)), str(len(some)), plain_usd(_lost(some))]
        for pool, some in zip(pools, by_pool, strict=True)
    ]
    columns = (
        Column("NODE", is_kept=True),
        Column("POOL"),
        Column("UNUSED FOR"),
        Column("$/HR", is_number=True),
        Column("WHY IT STAYS"),
    )
    rows = [
        [
            one.node.name,
            one.pool,
            _for(one.node, look.now),
            plain_usd(one.usd_per_hour),
            one.node.kept.why,
        ]
        for one in found
    ]
    commands = dict.fromkeys(one.node.kept.command for one in found if one.node.kept.command)
    asks = ["", "To have them removed by their autoscaler:", *(f"    {one}" for one in commands)]
    return [*table(heads, sums, look), "", *table(columns, rows, look), *(asks if commands else [])]


def as_data(found: Sequence[Costly]) -> list[dict[str, object]]:
    """Return the same for programs."""
    return [
        {
            "node": one.node.name,
            "pool": one.pool,
            "unusedSince": one.node.since.isoformat(),
            "isSinceKnown": one.node.is_since_known,
            "usdPerHour": None if one.usd_per_hour is None else Amount.of(one.usd_per_hour),
            "why": one.node.kept.why,
            "command": one.node.kept.command or None,
        }
        for one in found
    ]


def _lost(some: Sequence[Costly]) -> Decimal | None:
    prices = [one.usd_per_hour for one in some if one.usd_per_hour is not None]
    return sum(prices, Decimal(0)) if prices else None


def _for(node: Unused, now: datetime) -> str:
    length = span((now - node.since).total_seconds())
    return length if node.is_since_known else f"at most {length}"
