"""The price tables of the cluster: a ConfigMap of which each entry is a sheet, read as it changes.

A sheet that cannot be read, and a line of one, cost the others nothing; the log says what is wrong.
"""

import logging
from collections.abc import Callable, Iterator

from spotrun.kube.client import Client, Selection
from spotrun.kube.reflector import Reflector
from spotrun.kube.resource import Key
from spotrun.money.builtin import built_in_tables
from spotrun.money.catalog import Catalog
from spotrun.money.table import PriceTable
from spotrun.observe.objects import CONFIG_MAPS, ConfigMapObject

log = logging.getLogger(__name__)

_MOST_LINES = 10  # that the log says are wrong


def price_tables(
    client: Client, where: Key | None, changed: Callable[[Catalog], None]
) -> dict[str, Reflector[ConfigMapObject]]:
    """What follows that ConfigMap, if there is to be one."""
    if where is None:
        return {}
    only = f"metadata.name={where.name}"
    selection = Selection(CONFIG_MAPS, where.namespace, field_selector=only)
    follower = Reflector(
        client, selection, ConfigMapObject, lambda _, new: changed(catalog_of(new))
    )
    return {"pricetables": follower}


def catalog_of(config_map: ConfigMapObject | None) -> Catalog:
    """The tables of a ConfigMap, by the names of their entries; then the built-in ones."""
    own = _tables(config_map) if config_map is not None else ()
    return Catalog((*own, *built_in_tables()))


def _tables(config_map: ConfigMapObject) -> Iterator[PriceTable]:
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
