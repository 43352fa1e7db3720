"""The facts that are compared: pools of one kind of node, prices, and the use in bills. Pure.

A bill has dollars. Divided by the present price of the pool they are node-hours, because bills have
no price; a pool without a price has no hours, and is reported by name.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from spotrun.api.spec.own_nodes import OwnNodes
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.report.bills.charges import Charge
from spotrun.money.ownership.own_node import OwnNode
from spotrun.policies.cost.billing.parts import UNITS_PER_USD, Category

_Kind = tuple[str, int]


@dataclass(frozen=True)
class PoolUse:
    """The use of a pool."""

    usd: Fraction = Fraction(0)
    lost_usd: Fraction = Fraction(0)  # of it, for work that was lost


@dataclass(frozen=True)
class Market:
    """The pools of one kind of node."""

    kind: str
    pools: tuple[Pool, ...]

    @property
    def own(self) -> Pool | None:
        """The pool whose nodes are owned; the first one if there are several."""
        return next((pool for pool in self.pools if pool.spec.own_nodes is not None), None)

    def price_of(self, capacity: str) -> Fraction | None:
        """Return the lowest price of rented nodes of this capacity."""
        rented = [pool for pool in self.pools if pool.spec.own_nodes is None]
        prices = [price_of(pool) for pool in rented if pool.spec.capacity == capacity]
        if capacity == "OnDemand":
            prices += [_exact(pool.status.price.on_demand_usd_per_hour) for pool in rented]
        return min((price for price in prices if price), default=None)


@dataclass(frozen=True)
class Hours:
    """The node-hours that the dollars of bills have bought."""

    useful: Fraction = Fraction(0)
    spot: Fraction = Fraction(0)
    spot_usd: Fraction = Fraction(0)
    lost_on_spot: Fraction = Fraction(0)
    unpriced: tuple[str, ...] = field(default=())

    @property
    def spot_price(self) -> Fraction | None:
        """The mean price of an hour on spot."""
        return self.spot_usd / self.spot if self.spot else None

    @property
    def lost_share(self) -> Fraction:
        """The share of the hours on spot whose work was lost."""
        return self.lost_on_spot / self.spot if self.spot else Fraction(0)


def own_node(pool: Pool) -> OwnNode:
    """Return what a node of a pool costs its owner."""
    return OwnNode.of(OwnNodes.model_validate(pool.spec.own_nodes))


def price_of(pool: Pool) -> Fraction | None:
    """Return the price of a pool's node; None if it is unknown."""
    if pool.spec.own_nodes is not None:
        return own_node(pool).usd_per_hour.exact
    return _exact(pool.status.price.usd_per_hour or pool.spec.usd_per_hour)


def market(pools: Sequence[Pool], uses: Mapping[str, PoolUse], like: str | None) -> Market | None:
    """Return the pools that are compared; None if there is none, or none of that name.

    Without a name they are those like the pool whose nodes are owned, else those that cost most.
    """
    by_kind: dict[_Kind, list[Pool]] = defaultdict(list)
    for pool in sorted(pools, key=lambda one: one.metadata.name):
        by_kind[_kind(pool)].append(pool)

    def usd(kind: _Kind) -> Fraction:
        used = (uses.get(pool.metadata.name, PoolUse()) for pool in by_kind[kind])
        return sum((one.usd for one in used), Fraction(0))

    def is_named(pool: Pool) -> bool:
        return pool.metadata.name == like if like else pool.spec.own_nodes is not None

    named = [kind for kind, members in by_kind.items() if any(map(is_named, members))]
    if like and not named:
        return None
    kind = max(named or by_kind, key=usd, default=None)
    return Market(_words(kind), tuple(by_kind[kind])) if kind is not None else None


def uses_of(charges: Iterable[Charge]) -> dict[str, PoolUse]:
    """Return the dollars of each pool, with the parts of nodes that its jobs held and did not use.

    Bills do not say in which pool those parts were: they are divided like the job's other dollars.
    """
    jobs: dict[str, list[Charge]] = defaultdict(list)
    for charge in charges:
        jobs[charge.uid].append(charge)
    uses: dict[str, PoolUse] = defaultdict(PoolUse)
    for of_job in jobs.values():
        in_pools = [one for one in of_job if one.part.pool]
        idle = sum(one.units for one in of_job if one.part.category == Category.IDLE)
        paid = sum(one.units for one in in_pools)
        scale = Fraction(paid + idle, paid) if paid > 0 else Fraction(1)
        for one in in_pools:
            usd = scale * one.units / UNITS_PER_USD
            lost = usd if one.part.category == Category.LOST_WORK else Fraction(0)
            before = uses[one.part.pool]
            uses[one.part.pool] = PoolUse(before.usd + usd, before.lost_usd + lost)
    return dict(uses)


def hours_of(chosen: Market, uses: Mapping[str, PoolUse]) -> Hours:
    """Return the node-hours that were bought in these pools."""
    useful = spot = spot_usd = lost = Fraction(0)
    unpriced: list[str] = []
    for pool in chosen.pools:
        use, price = uses.get(pool.metadata.name, PoolUse()), price_of(pool)
        if use.usd <= 0:
            continue
        if not price:
            unpriced.append(pool.metadata.name)
            continue
        useful += (use.usd - use.lost_usd) / price
        if pool.spec.capacity == "Spot":
            spot, spot_usd = spot + use.usd / price, spot_usd + use.usd
            lost += use.lost_usd / price
    return Hours(useful, spot, spot_usd, lost, tuple(unpriced))


def _kind(pool: Pool) -> _Kind:
    """Return what makes nodes alike: GPUs where they are known, else the instance types."""
    node = pool.status.node
    if node is not None and node.gpus:
        return node.accelerator or "GPU", node.gpus
    return ", ".join(sorted(pool.spec.instance_types)) or "any type", 0


def _words(kind: _Kind) -> str:
    name, gpus = kind
    return f"{gpus} x {name}" if gpus else name


def _exact(amount: str | None) -> Fraction | None:
    return Fraction(Decimal(amount)) if amount else None
