"""Prices of Azure: its public list of retail prices, spot included.

No key is needed:
https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from urllib.parse import urlsplit

import aiohttp
import msgspec

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_rows import PriceRow, read_price
from spotrun.observe.prices.cloud_http import cloud_session, get_json
from spotrun.observe.prices.live import CloudUnavailableError, Question, Types

RETAIL_PRICES = "https://prices.azure.com/api/retail/prices"

_EVERY_SECONDS = 3600.0  # Azure changes prices of spot a few times a month
_MOST_PAGES = 20  # a type has about ten prices in a region, and a page holds a hundred
_HOURLY = "1 Hour"
_CONSUMPTION = "Consumption"  # neither reserved nor for development
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def azure_questions(
    wall: Callable[[], datetime], *, url: str = RETAIL_PRICES
) -> tuple[Question, ...]:
    """Return the questions to Azure."""
    azure = _Azure(url, wall)
    return (Question("Azure retail prices", _EVERY_SECONDS, azure.ask),)


class _Item(msgspec.Struct, frozen=True, rename="camel"):
    """One price, with the fields that are used."""

    arm_sku_name: str
    arm_region_name: str
    product_name: str
    sku_name: str
    unit_of_measure: str
    type: str
    currency_code: str
    retail_price: Decimal
    effective_start_date: datetime


class _Page(msgspec.Struct, frozen=True):
    items: list[_Item] = msgspec.field(name="Items")
    next_page: str | None = msgspec.field(name="NextPageLink", default=None)


class _Azure:
    def __init__(self, url: str, wall: Callable[[], datetime]) -> None:
        self._url = url
        self._wall = wall

    async def ask(self, region: str, types: Types) -> list[PriceRow]:
        """Return the price of each type in a region, on demand and on spot."""
        now, rows = self._wall(), list[PriceRow]()
        async with cloud_session() as session:
            for instance_type in sorted(filter(_TYPE.fullmatch, types)):
                items = await self._items(session, region, instance_type)
                rows += _rows(items, instance_type, region, now)
        return rows

    async def _items(
        self, session: aiohttp.ClientSession, region: str, instance_type: str
    ) -> list[_Item]:
        wanted = {
            "serviceName": "Virtual Machines",
            "priceType": _CONSUMPTION,
            "armRegionName": region,
            "armSkuName": instance_type,
        }
        asked = " and ".join(f"{field} eq '{value}'" for field, value in wanted.items())
        page = await get_json(session, self._url, _Page, params={"$filter": asked})
        items = list(page.items)
        for _ in range(_MOST_PAGES):
            if not page.next_page:
                return items
            page = await get_json(session, self._same_place(page.next_page), _Page)
            items += page.items
        raise CloudUnavailableError(
            f"its list has more than {_MOST_PAGES} pages about {instance_type}"
        )

    def _same_place(self, link: str) -> str:
        """Return the link to another page, if it is on the same host as the first one."""
        here, target = urlsplit(self._url), urlsplit(link)
        if (here.scheme, here.hostname) != (target.scheme, target.hostname):
            raise CloudUnavailableError(f"the next page is at another host, {target.hostname}")
        return link


def _rows(
    items: Iterable[_Item], instance_type: str, region: str, now: datetime
) -> Iterator[PriceRow]:
    for capacity in (Capacity.ON_DEMAND, Capacity.SPOT):
        prices = [
            item
            for item in items
            if _is_for_linux(item, instance_type, region)
            and item.effective_start_date <= now
            and item.retail_price > 0
            and _capacity_of(item) is capacity
        ]
        newest = max((item.effective_start_date for item in prices), default=now)
        found = {item.retail_price for item in prices if item.effective_start_date == newest}
        if len(found) == 1:  # prices that contradict each other do not count
            yield PriceRow(
                usd_per_hour=read_price(f"{found.pop():f}"),
                instance_type=instance_type,
                capacity=capacity,
                region=region,
                as_of=now,
            )


def _is_for_linux(item: _Item, instance_type: str, region: str) -> bool:
    """Whether it is the hourly price of that machine with Linux; Windows has its own price."""
    return (
        item.arm_sku_name.lower() == instance_type.lower()
        and item.arm_region_name == region
        and item.unit_of_measure == _HOURLY
        and item.type == _CONSUMPTION
        and item.currency_code == "USD"
        and "Windows" not in item.product_name
        and "CloudServices" not in item.product_name
        and "Dedicated" not in item.product_name
    )


def _capacity_of(item: _Item) -> Capacity | None:
    """Return the capacity type; None for an offer that has ended, or is not open to all."""
    if item.sku_name.endswith(" Spot"):
        return Capacity.SPOT
    return None if item.sku_name.endswith(" Low Priority") else Capacity.ON_DEMAND
