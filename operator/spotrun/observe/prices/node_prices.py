"""Prices of nodes over time: from the first source that knows one, remembered by the process.

Pools keep their prices in their status. A node's annotation and a price table only give the present
price; a change is noticed here, and the jobs' status has its effect soon after.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from spotrun.kube.lru_map import LruMap
from spotrun.money.price_history import NodePrice, PriceHistory, history_of
from spotrun.money.price_sources import FROM_NODE, Catalog
from spotrun.money.units import UsdPerHour
from spotrun.observe.nodes.facts import MOST_NODES
from spotrun.state.snapshot import Node

MOST_CHANGES = 16
"""The most price changes of one node that are kept between two passes of a job."""


@dataclass
class _Known:
    asked: tuple[Node, NodePrice | None, Catalog]
    node: Node  # with its prices, as it was last seen


class Prices:
    """The prices of nodes; a node that is gone keeps its last one."""

    def __init__(
        self,
        pool_price: Callable[[str], NodePrice | None],
        wall: Callable[[], datetime],
        catalog: Catalog,
    ) -> None:
        self.catalog = catalog
        self._pool_price = pool_price
        self._wall = wall
        self._known = LruMap[str, _Known](MOST_NODES)
        self._missed_at = LruMap[str, datetime](MOST_NODES)

    def priced(self, node: Node) -> Node:
        """Return the node with its prices."""
        known = self._known.get(node.name)
        if node.gone:
            return self._left_by(node, known)
        if node.created_at is None:  # it does not exist yet, or no longer
            self._missed(node.name)
            return node
        self._missed_at.pop(node.name)
        price = self._pool_price(node.pool) if node.pool else None
        asked = (node, price, self.catalog)
        if known is not None and known.asked == asked:
            return known.node
        is_same = known is not None and known.node.created_at == node.created_at
        before = known.node.prices if known is not None and is_same else PriceHistory()
        priced = replace(
            node,
            prices=self._continued(before, self._history(node, price)),
            on_demand_usd_per_hour=self._on_demand(node, price),
        )
        self._known[node.name] = _Known(asked, priced)
        return priced

    def _missed(self, name: str) -> datetime:
        """Return the time since which a node is missing."""
        moment = self._missed_at.get(name)
        if moment is None:
            moment = self._missed_at[name] = self._wall()
        return moment

    def _left_by(self, node: Node, known: _Known | None) -> Node:
        """Return a node that is gone, as remembered, and gone since it was first missed."""
        last = known.node if known is not None else node
        return replace(last, gone=True, ready=node.ready, gone_at=self._missed(node.name))

    def _history(self, node: Node, price: NodePrice | None) -> PriceHistory:
        """Return the pool's price history, if it holds for all its nodes, else the catalog's."""
        if node.stated_price is None and _is_of_all_nodes(price):
            return history_of(price, self._wall())
        quote = self.catalog.quote(node.offering, annotation=node.stated_price)
        return PriceHistory.constant(quote.usd_per_hour) if quote else PriceHistory()

    def _on_demand(self, node: Node, price: NodePrice | None) -> UsdPerHour | None:
        if price is not None and price.on_demand_usd_per_hour is not None:
            return price.on_demand_usd_per_hour
        quote = self.catalog.on_demand(node.offering)
        return quote.usd_per_hour if quote is not None else None

    def _continued(self, before: PriceHistory, now: PriceHistory) -> PriceHistory:
        """Continue a history: a price changes when the change is seen; while unknown, it stays."""
        if not before.changes:
            return now
        moment = self._wall()
        price = now.at(moment)
        if len(now.changes) > 1:  # it has its own times of change
            return now
        if price is None or price == before.at(moment):
            return before
        return PriceHistory((*before.changes, (moment, price))[-MOST_CHANGES:])


def _is_of_all_nodes(price: NodePrice | None) -> bool:
    """Whether a pool's price holds for all its nodes; one that a node states only holds for it."""
    return price is not None and price.usd_per_hour is not None and price.source != FROM_NODE
