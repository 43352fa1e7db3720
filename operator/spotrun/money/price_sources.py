"""The sources of a node's price in their order, and advice if none of them has it.

The node's own annotation, the pool's spec, the price tables of the cluster, then the table in the
package. Nothing is guessed: a price in another region, of another type or of another capacity type
is not the price of this node.
"""

from dataclasses import dataclass, replace

from spotrun.api.capacitypool import Capacity, CapacityPoolSpec
from spotrun.api.names import ANNOTATION_NODE_USD_PER_HOUR
from spotrun.money.other_costs.storage_prices import Bucket, StoragePrice
from spotrun.money.ownership import own_node
from spotrun.money.ownership.own_node import OwnNode
from spotrun.money.price_history import Quote
from spotrun.money.price_rows import Offering, read_price
from spotrun.money.price_table import PriceTable
from spotrun.money.units import UsdPerHour

FROM_NODE = f"the node's annotation {ANNOTATION_NODE_USD_PER_HOUR}"
_FROM_POOL = "usdPerHour of the CapacityPool"


@dataclass(frozen=True)
class Catalog:
    """The price tables; the first one with a price counts."""

    tables: tuple[PriceTable, ...] = ()

    def quote(
        self,
        wanted: Offering,
        *,
        annotation: str | None = None,
        declared: Quote | None = None,
        last: Quote | None = None,
    ) -> Quote | None:
        """Return the price of a node and its source; None if no source has one.

        An annotation that is not a price makes the price unknown: its author wanted another price
        than the other sources would give. `declared` is the pool's own price, and `last` is the
        previous quote: it stays valid if its source is a live one that has not answered yet.
        """
        if annotation is not None:
            price = _readable(annotation)
            return Quote(price, FROM_NODE) if price is not None else None
        if declared is not None:
            return declared
        found = (table.look_up(wanted) or _kept(table, last) for table in self.tables)
        return next((quote for quote in found if quote is not None), None)

    def storage(self, bucket: Bucket) -> StoragePrice | None:
        """Return the price of a bucket, from the first table that has one."""
        found = (table.storage_price(bucket) for table in self.tables)
        return next((price for price in found if price is not None), None)

    def on_demand(self, wanted: Offering) -> Quote | None:
        """Return the price of the same node on demand, from the tables."""
        return self.quote(replace(wanted, capacity=Capacity.ON_DEMAND, node=""))


def _kept(table: PriceTable, last: Quote | None) -> Quote | None:
    if last is None or table.good_for is None or last.source != table.source:
        return None
    return replace(last, good_for=table.good_for)


def declared_price(spec: CapacityPoolSpec) -> Quote | None:
    """Return the price that the spec of a pool declares for its nodes; None if it has none."""
    if spec.own_nodes is not None:
        return Quote(OwnNode.of(spec.own_nodes).usd_per_hour.as_stored, own_node.SOURCE)
    if spec.usd_per_hour is not None:
        return Quote(UsdPerHour.of(spec.usd_per_hour), _FROM_POOL)
    return None


def unreadable(annotation: str | None, node: str) -> str:
    """Return what is wrong with the price in a node's annotation; empty if nothing is."""
    if annotation is None or _readable(annotation) is not None:
        return ""
    return (
        f"the annotation {ANNOTATION_NODE_USD_PER_HOUR} of node {node} is {annotation!r}: "
        "write a decimal number of USD, like 12.50"
    )


def unpriced_because(wanted: Offering, annotation: str | None = None) -> str:
    """Return why no price is known, and what to write where."""
    if wrong := unreadable(annotation, wanted.node):
        return wrong
    by_hand = (
        f"set usdPerHour of its CapacityPool, or annotate the node with "
        f"{ANNOTATION_NODE_USD_PER_HOUR}"
    )
    if not wanted.instance_type:
        return f"a node without an instance type is in no price table: {by_hand}"
    place = wanted.zone or wanted.region or "an unknown region"
    line = f"{wanted.instance_type},{wanted.region},{wanted.zone},{wanted.capacity}"
    return (
        f"no source has the price of {wanted.instance_type} ({wanted.capacity}) in {place}: "
        f"add the line {line},<USD per hour> to a price table, {by_hand}"
    )


def _readable(annotation: str) -> UsdPerHour | None:
    try:
        return read_price(annotation)
    except ValueError:
        return None
