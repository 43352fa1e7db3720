"""The price tables: the cluster's own, the clouds', and the built-in ones.

The cluster's tables are entries of a ConfigMap, read again when it changes. A table or a line that
cannot be read does not affect the others; the log says what is wrong.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.tasks import running
from spotrun.kube.watch.reflector import Reflector
from spotrun.money.data.builtin_tables import built_in_tables
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import Catalog
from spotrun.money.price_table import PriceTable
from spotrun.observe.kube_objects import CONFIG_MAPS, ConfigMapObject
from spotrun.observe.prices.live import LivePrices

log = logging.getLogger(__name__)

_MOST_LINES = 10  # wrong lines that the log lists


@dataclass(frozen=True)
class PriceSources:
    """The sources of prices besides nodes, pools and the tables in the package."""

    table: Key | None = None  # a ConfigMap
    live: tuple[LivePrices, ...] = ()  # one for each cloud that is asked


NOBODY = PriceSources()


class PriceTables:
    """The price tables, followed in an `async with` block; `changed` gets each new catalog."""

    def __init__(
        self,
        client: Client,
        sources: PriceSources,
        *,
        offered: Callable[[], Iterable[Offering]],
        changed: Callable[[Catalog], None],
    ) -> None:
        self.reflectors: dict[str, Reflector[ConfigMapObject]] = {}
        if (table := sources.table) is not None:
            only = f"metadata.name={table.name}"
            selection = Selection(CONFIG_MAPS, table.namespace, field_selector=only)
            follower = Reflector(client, selection, ConfigMapObject, self._read)
            self.reflectors["pricetables"] = follower
        self._own: tuple[PriceTable, ...] = ()
        self._live = sources.live
        self._offered = offered
        self._changed = changed
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for follower in self.reflectors.values():
            await self._stack.enter_async_context(running(follower.run()))
        for cloud in self._live:
            following = cloud.follow(self._offered, lambda _: self._tell())
            await self._stack.enter_async_context(running(following))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def catalog(self) -> Catalog:
        """Return all prices known now; a cloud that has not answered yet is in it without any."""
        return catalog_of(self._own, (table for cloud in self._live for table in cloud.tables()))

    def _read(self, _: ConfigMapObject | None, new: ConfigMapObject | None) -> None:
        self._own = tables_of(new)
        self._tell()

    def _tell(self) -> None:
        self._changed(self.catalog)


def catalog_of(own: Iterable[PriceTable] = (), live: Iterable[PriceTable] = ()) -> Catalog:
    """Return a catalog: the cluster's own tables first, then the clouds', then the built-in."""
    return Catalog((*own, *live, *built_in_tables()))


def tables_of(config_map: ConfigMapObject | None) -> tuple[PriceTable, ...]:
    """Return the tables of a ConfigMap, by the names of their entries."""
    return tuple(_read_tables(config_map)) if config_map is not None else ()


def _read_tables(config_map: ConfigMapObject) -> Iterator[PriceTable]:
    meta = config_map.metadata
    for name, text in sorted(config_map.data.items()):
        source = f"{name} of ConfigMap {meta.namespace}/{meta.name}"
        try:
            table = PriceTable.parse(text, source)
        except ValueError as error:
            log.warning("%s is no price table: %s", source, error)
            continue
        for line in table.refused[:_MOST_LINES]:
            log.warning("%s: %s", source, line)
        yield table
