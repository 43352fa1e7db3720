"""The pools that jobs may choose from, as decisions see them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.placement import Placement
from spotrun.kube.lru_map import LruMap
from spotrun.money.price_history import NodePrice
from spotrun.money.price_sources import Catalog
from spotrun.money.units import decimal_of
from spotrun.observe.pools.fit import Demand
from spotrun.observe.pools.membership import match_labels
from spotrun.observe.pools.objects import Pool
from spotrun.observe.pools.pools import Pools
from spotrun.observe.pools.snapshot import node_of, quotes_of
from spotrun.policies.pool.interruption_rate import interruptions_per_hour
from spotrun.policies.pool.interruptions import DAY
from spotrun.state.market import Market, PoolFacts

KEPT = timedelta(minutes=1)
"""The market is kept this long: the growing age of nodes changes little in that time."""
MOST_VIEWS = 1_000
NAME_LABEL = "kubernetes.io/metadata.name"


class Markets:
    """The pools that jobs may choose from.

    Jobs are examined far more often than a market changes, so the result for workers of one kind is
    kept.
    """

    def __init__(
        self, pools: Pools, catalog: Callable[[], Catalog], wall: Callable[[], datetime]
    ) -> None:
        self._pools = pools
        self._catalog = catalog
        self._wall = wall
        self._bases: dict[str, _Base] = {}
        self._views = LruMap[tuple[Demand, str], _View](MOST_VIEWS)

    def market_for(
        self, placement: Placement, demand: Demand, namespace: str, labels: Mapping[str, str]
    ) -> Market:
        """Return the pools of a job in a namespace that has these labels.

        `free_slots` counts the room that our own workers leave on nodes. Other pods are not
        watched, so it is the most that may fit.
        """
        view = self._view(demand, namespace, {NAME_LABEL: namespace, **labels})
        chosen = placement.pool_selector
        if chosen is None:
            return view.market
        bases = ((facts, self._bases[facts.name]) for facts in view.market.pools)
        return Market(
            tuple(facts for facts, base in bases if chosen.matches(dict(base.pool.labels))),
            view.market.strays,
        )

    def interruptions_per_hour(self, name: str) -> float | None:
        """Return the rate at which nodes of a spot pool are expected to be taken away."""
        one = self._base(name)
        if one is None or one.facts.capacity is not Capacity.SPOT:
            return None
        market = [base.facts for other in self._pools.names() if (base := self._base(other))]
        return interruptions_per_hour(one.facts, market)

    def _view(self, demand: Demand, namespace: str, where: dict[str, str]) -> "_View":
        known, now = self._views.get((demand, namespace)), self._wall()
        if known is not None and known.where != where:
            known = None
        if known is not None and known.stamp == self._pools.stamp and now < known.until:
            return known
        before = known.facts if known is not None else {}
        view = _View(where, self._pools.stamp, now + KEPT)
        for name in self._pools.names():
            base = self._base(name)
            if base is None:
                continue
            view.until = min(view.until, base.until)
            one = before.get(name)
            stamp = self._pools.stamp_of(name)
            if one is None or one[0] is not base or one[1] != stamp:
                one = (base, stamp, self._for_job(base, demand, where))
            view.facts[name] = one
        strays = self._pools.room.strays
        view.market = Market(tuple(one[2] for one in view.facts.values()), strays)
        self._views[demand, namespace] = view
        return view

    def _for_job(self, base: "_Base", demand: Demand, where: dict[str, str]) -> PoolFacts:
        pool, further = base.pool, base.pool.spec.tolerations or ()
        selector = pool.spec.namespace_selector
        taken = _taken(self._pools, pool)
        return replace(
            base.facts,
            workers=self._pools.workers(pool.name),
            namespaces_allowed=selector is None or selector.matches(where),
            free_slots=self._pools.room.slots(pool.name, demand, further),
            is_promised=self._pools.room.is_promised(pool.name),
            last_interruption_at=max(taken, default=None),
        )

    def _base(self, name: str) -> "_Base | None":
        now, revision = self._wall(), self._pools.revision(name)
        known = self._bases.get(name)
        if known is not None and known.revision == revision and now < known.until:
            return known
        pool = self._pools.get(name)
        if pool is None:
            self._bases.pop(name, None)
            return None
        until = min(at for at in (now + KEPT, _retry_at(pool, now)) if at is not None)
        facts = _facts(self._pools, pool, self._catalog(), now)
        base = _Base(pool, facts, revision, until)
        self._bases[name] = base
        return base


@dataclass(frozen=True)
class _Base:
    pool: Pool
    facts: PoolFacts
    revision: int
    until: datetime


@dataclass
class _View:
    """The market for workers of one kind in one namespace."""

    where: dict[str, str]
    stamp: int
    until: datetime
    facts: dict[str, tuple[_Base, int, PoolFacts]] = field(default_factory=dict)
    market: Market = field(default_factory=Market)


def _facts(pools: Pools, pool: Pool, catalog: Catalog, now: datetime) -> PoolFacts:
    spec, status = pool.spec, pool.status
    price = status.price if status.as_of is not None else _first_price(pools, pool, catalog)
    members = list(pools.members(pool.name))
    labels = members[0].node.metadata.labels if members else {}
    node = node_of(pools, pool) or status.node
    return PoolFacts(
        name=pool.name,
        capacity=spec.capacity,
        zones=spec.zones or (),
        region=spec.region or "",
        instance_types=spec.instance_types or (),
        accelerator=node.accelerator if node is not None else "",
        gpus=node.gpus if node is not None else 0,
        usd_per_hour=decimal_of(price.usd_per_hour) if price is not None else None,
        on_demand_usd_per_hour=decimal_of(price.on_demand_usd_per_hour) if price else None,
        nodes=len(members),
        max_workers=spec.max_workers,
        declared=not pool.is_ours,
        match_labels=match_labels(spec, labels),
        tolerations=spec.tolerations or (),
        allocatable=node.resources if node is not None else None,
        available=status.available,
        retry_at=_retry_at(pool, now),
        provision_seconds=_seconds(status.provision_seconds),
        interruptions_24h=status.interruptions_24h,
        node_hours_24h=_node_hours(pools, pool, now),
    )


def _taken(pools: Pools, pool: Pool) -> list[datetime]:
    """Return when nodes were taken, including news that status lacks: a pool rests after a loss."""
    news = (life.ended_at for life in pools.news(pool.name).lives if life.taken)
    known = (one.time for one in pool.status.interruptions)
    return [*known, *(at for at in news if at is not None)]


def _node_hours(pools: Pools, pool: Pool, now: datetime) -> float:
    """Return the node-hours of a day at risk of being taken, including nodes that were taken."""
    present = sum(
        min((now - member.born_at) / timedelta(hours=1), 24.0)
        for member in pools.members(pool.name)
    )
    recent = (one for one in pool.status.interruptions if now - one.time < DAY)
    return present + sum(float(one.node_hours) for one in recent)


def _retry_at(pool: Pool, now: datetime) -> datetime | None:
    """Return when the operator asks a dry pool again; None if it may ask now."""
    moment = pool.status.retry_at
    return moment if moment is not None and moment > now else None


def _seconds(learned: Decimal | None) -> float | None:
    return float(learned) if learned is not None else None


def _first_price(pools: Pools, pool: Pool, catalog: Catalog) -> NodePrice:
    """Return the price of a pool that has no status yet, so that the first jobs know it too."""
    quote, on_demand = quotes_of(pools, pool, catalog)
    return NodePrice(
        usd_per_hour=quote.usd_per_hour if quote is not None else None,
        on_demand_usd_per_hour=on_demand.usd_per_hour if on_demand is not None else None,
    )
