"""One pool's snapshot, from which its next status is computed. Pure."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from spotrun.api.capacitypool import CapacityPoolSpec
from spotrun.api.names import ANNOTATION_NODE_USD_PER_HOUR
from spotrun.money.price_history import Quote, remembered
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import FROM_NODE, Catalog, declared_price
from spotrun.money.shares import times_in
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.nodes.cloud_labels import accelerator_of
from spotrun.observe.pools.fit import Demand
from spotrun.observe.pools.free_capacity import Kind, lets_in
from spotrun.observe.pools.membership import match_labels
from spotrun.observe.pools.objects import Pool, asked, is_unschedulable
from spotrun.observe.pools.pools import Pools
from spotrun.policies.pool.lifetimes import Life
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.stored.pools.pool_state import PoolNode

DemandOf = Callable[[PodObject], Demand | None]
"""A function that returns the requests of a worker's template; None if they are unknown."""
_PLACES = 12  # as many as a status has, so a number is the same after it is read again


def pool_snapshot(
    pools: Pools,
    pool: Pool,
    catalog: Catalog,
    demand: DemandOf,
    written_seconds: float,
    *,
    sees_all: bool = True,
    interruptions_per_hour: float | None = None,
    is_turned_down: Callable[[PodObject], bool] = lambda _: False,
) -> PoolSnapshot:
    """Return the facts from which the next status of a pool is computed.

    An operator that serves one namespace does not see all workers, so it writes no number of
    workers: two such operators would overwrite each other's number for ever.
    """
    members = list(pools.members(pool.name))
    present = [Life(one.born_at) for one in members if one.reclaimed_at is None]
    quote, on_demand = quotes_of(pools, pool, catalog)
    waiting = [pod for pod in pools.waiting.values() if pool.name in asked(pod)]
    node = node_of(pools, pool)
    fitting = list(_fitting(pools, pool, waiting, demand, node or pool.status.node))
    news = pools.news(pool.name)
    return PoolSnapshot(
        name=pool.name,
        uid=pool.uid,
        version=pool.version,
        spec=pool.spec,
        status=pool.status,
        is_ours=pool.is_ours,
        lives=(*present, *news.lives),
        workers=sum(one.workers for one in members) if sees_all else None,
        node=node,
        quote=quote,
        on_demand=on_demand,
        interruptions_per_hour=interruptions_per_hour,
        provisioned=tuple(news.provisioned),
        waiting=tuple(_since(fitting)),
        turned_down=tuple(_since(filter(is_turned_down, fitting))),
        is_asked=bool(waiting),
        written_seconds=written_seconds,
    )


def node_of(pools: Pools, pool: Pool) -> PoolNode | None:
    """Return the resources of a pool's node; if nodes differ, the smallest, which all have."""
    found = []
    for member in pools.members(pool.name):
        has = member.has
        found.append((has.gpus, has.cpu, has.memory, member.node.metadata.name, member))
    if not found:
        return None
    # A new node has no GPUs until its device plugin has registered them.
    found = [one for one in found if one[0]] or found
    gpus, cpu, memory, _, member = min(found)
    if not gpus and pool.status.node is not None and pool.status.node.gpus:
        return pool.status.node
    return PoolNode(
        cpu=round(cpu, _PLACES),
        memory=round(memory, _PLACES),
        gpus=gpus,
        accelerator=accelerator_of(member.node.metadata.labels) if gpus else "",
    )


def quotes_of(pools: Pools, pool: Pool, catalog: Catalog) -> tuple[Quote | None, Quote | None]:
    """Return a node's price and its on-demand price; a pool of several types has neither."""
    types = pool.spec.instance_types or ()
    offering = _offering(pool.spec, types[0] if len(types) == 1 else "")
    on_demand = catalog.on_demand(offering) if offering.instance_type else None
    return _quote(pools, pool, catalog, offering), on_demand


def offerings_of(pool: Pool) -> Iterator[Offering]:
    """Return all that a pool offers, type by type."""
    return (_offering(pool.spec, kind) for kind in pool.spec.instance_types or ())


def _quote(pools: Pools, pool: Pool, catalog: Catalog, offering: Offering) -> Quote | None:
    """Return the price that all staying nodes state, until the next node comes; else another price.

    If the prices differ, the highest counts: it is unknown which kind of node comes next, and a job
    must not be placed for a price that it may not get. A worker pays what its own node states. A
    node that leaves says nothing about the next node.
    """
    quoted, declared = remembered(pool.status.price), declared_price(pool.spec)
    staying = [member.node for member in pools.members(pool.name) if member.reclaimed_at is None]
    stated = {node.metadata.annotations.get(ANNOTATION_NODE_USD_PER_HOUR) for node in staying}
    if not stated and declared is None and quoted is not None and quoted.source == FROM_NODE:
        return quoted
    quotes = {
        catalog.quote(offering, annotation=one, declared=declared, last=quoted) for one in stated
    }
    if len(quotes) == 1:
        return quotes.pop()
    by_nodes = [quote for quote in quotes if quote is not None and quote.source == FROM_NODE]
    if by_nodes and len(by_nodes) == len(quotes):
        return max(by_nodes, key=lambda quote: quote.usd_per_hour)
    return catalog.quote(offering, declared=declared, last=quoted)


def _offering(spec: CapacityPoolSpec, instance_type: str) -> Offering:
    zones = spec.zones or ()
    return Offering(
        instance_type=instance_type,
        capacity=spec.capacity,
        region=spec.region or "",
        zone=zones[0] if len(zones) == 1 else "",
    )


def _since(waiting: Iterable[PodObject]) -> Iterator[datetime]:
    for pod in waiting:
        if pod.metadata.creation_timestamp:
            yield datetime.fromisoformat(pod.metadata.creation_timestamp)


def _fitting(
    pools: Pools,
    pool: Pool,
    waiting: Iterable[PodObject],
    demand_of_pod: DemandOf,
    have: PoolNode | None,
) -> Iterator[PodObject]:
    """Yield the unschedulable workers that would fit an empty node: then the pool is dry.

    An impossible request of one tenant does not make it dry. The nodes are examined once for all
    workers of a kind: thousands may wait for a pool of a thousand nodes.
    """
    if have is None:
        return
    fits: dict[Demand, bool] = {}
    kinds: set[Kind] | None = None
    for pod in filter(is_unschedulable, waiting):
        demand = demand_of_pod(pod)
        if demand is None:
            continue
        if demand not in fits:
            kinds = _kinds(pools, pool) if kinds is None else kinds
            lets = any(lets_in(demand, kind, pool.spec.tolerations or ()) for kind in kinds)
            fits[demand] = lets and bool(times_in(demand.requests, have.resources))
        if fits[demand]:
            yield pod


def _kinds(pools: Pools, pool: Pool) -> set[Kind]:
    nodes = (one.node for one in pools.members(pool.name))
    return {Kind.of(node.metadata.labels, node.spec.taints) for node in nodes} or {_kind(pool)}


def _kind(pool: Pool) -> Kind:
    """Return the kind of a pool's nodes, as far as it is known without a node."""
    asked_for = match_labels(pool.spec, {})
    return Kind.of({key: values[0] for key, values in asked_for.items() if len(values) == 1})
