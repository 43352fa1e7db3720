"""`kubectl tjob idle`: read nodes and pods, and print the nodes that nobody uses."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar

from spotrun.api.names import ANNOTATION_NODE_USD_PER_HOUR
from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import explained_denial
from spotrun.cli.jobs.output import written
from spotrun.cli.report.unused_nodes.facts import (
    NODE_CLAIMS,
    NODE_POOLS,
    NodeClaim,
    NodePool,
    Pod,
    Unused,
    unused_nodes,
)
from spotrun.cli.report.unused_nodes.screen import NO_POOL, Costly, as_data, screen
from spotrun.cli.text.look import look_of
from spotrun.kube.errors import Forbidden, NotFound
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Selection
from spotrun.money.price_rows import read_price
from spotrun.money.price_sources import declared_price
from spotrun.observe.kube_objects import CAPACITY_POOLS, NODES, PODS, NodeObject, PoolObject
from spotrun.observe.nodes.interruption_notices import NO_EVENTS
from spotrun.observe.pools.pools import Pools

T = TypeVar("T")


def run(chosen: Namespace) -> int:
    """Print the nodes that nobody uses."""

    async def work(cluster: Cluster) -> int:
        now = cluster.client.clock.now()
        nodes = await _all(cluster, NODES, NodeObject)
        unused = unused_nodes(
            nodes,
            await _all(cluster, PODS, Pod),
            await _of_karpenter(cluster, NODE_CLAIMS, NodeClaim),
            await _of_karpenter(cluster, NODE_POOLS, NodePool),
            now=now,
            at_least=timedelta(minutes=chosen.minutes),
        )
        declared = await _all(cluster, CAPACITY_POOLS, PoolObject)
        found, nodes_of = priced(list(unused), nodes, declared, now)
        if chosen.output:
            print(written(as_data(found), chosen.output, []))
        else:
            print("\n".join(screen(found, nodes_of, look_of(sys.stdout))))
        return DONE

    return ask(chosen, work)


async def _all(cluster: Cluster, kind: Resource, as_type: type[T]) -> Sequence[T]:
    """Read all objects of a kind; raises KubeError, and Refused where these may not be read."""
    with explained_denial(_RIGHTS):
        return (await cluster.client.list_all(Selection(kind), as_type)).items


_RIGHTS = (
    "All pods of the cluster show whether a node is used: this command needs the right to list "
    "nodes, pods of all namespaces and CapacityPools. Ask an admin of the cluster for it, or to "
    "run the command"
)


async def _of_karpenter(cluster: Cluster, kind: Resource, as_type: type[T]) -> Sequence[T]:
    """Read objects of Karpenter; none if it is not installed, or they may not be read."""
    try:
        return (await cluster.client.list_all(Selection(kind), as_type)).items
    except (NotFound, Forbidden):
        return ()


def priced(
    unused: Sequence[Unused],
    nodes: Sequence[NodeObject],
    declared: Sequence[PoolObject],
    now: datetime,
) -> tuple[list[Costly], dict[str, int]]:
    """Return the nodes with pool and price, and how many nodes each pool has."""
    pools = Pools(
        pods_on=lambda _: (),
        events=lambda _: NO_EVENTS,
        changed=lambda _: None,
        wall=lambda: now,
    )
    for pool in declared:
        pools.pool_changed(None, pool)
    for node in nodes:
        pools.node_changed(None, node)
    places = {node.metadata.name: pools.place(node) for node in nodes}
    names = {name: place[0] if place is not None else NO_POOL for name, place in places.items()}
    by_name = {node.metadata.name: node for node in nodes}
    found = [
        Costly(one, names[one.name], _price(pools, by_name[one.name], names[one.name]))
        for one in unused
    ]
    found.sort(key=lambda one: (one.pool, one.node.since, one.node.name))
    return found, dict(Counter(names.values()))


def _price(pools: Pools, node: NodeObject, pool: str) -> Decimal | None:
    """Return the price of a node: its own, else the one that its pool's status or spec has."""
    stated = node.metadata.annotations.get(ANNOTATION_NODE_USD_PER_HOUR)
    if stated is not None:
        try:
            return read_price(stated).decimal
        except ValueError:
            return None
    known = pools.price_of(pool)
    if known is not None and known.usd_per_hour is not None:
        return known.usd_per_hour.decimal
    there = pools.get(pool)
    declared = declared_price(there.spec) if there is not None else None
    return declared.usd_per_hour.decimal if declared is not None else None
