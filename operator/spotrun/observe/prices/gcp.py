"""Prices of GCP: the SKUs of its catalog, read with the cluster's own identity.

A node's price is the sum for its cores, memory and GPUs: the catalog has no machine types. It has
tens of thousands of SKUs and cannot be filtered, so it is read as a whole, and rarely.
https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import msgspec

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_rows import PriceRow, read_price
from spotrun.observe.prices.cloud_http import cloud_session, get_json
from spotrun.observe.prices.gcp_machines import GPUS, SERIES, Machine, machine_of
from spotrun.observe.prices.live import CloudUnavailableError, Question, Types

CATALOG = "https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus"  # Compute Engine

_EVERY_SECONDS = 12 * 3600.0  # prices of spot change once a month at most
_PAGE_SIZE = 1000  # 2 MB: decoding one page does not block the event loop for long
_MOST_PAGES = 200
_CAPACITIES = {"OnDemand": Capacity.ON_DEMAND, "Preemptible": Capacity.SPOT}
# Anchored, because others begin the same: reserved and custom machines, sole tenancy, by calendar.
_PARTS = re.compile(
    rf"(?P<spot>Spot Preemptible )?(?P<series>{'|'.join(sorted(SERIES))}) "
    r"Instance (?P<part>Core|Ram) running in .+"
    rf"|(?P<gpu>{'|'.join(sorted(GPUS))}) GPU "
    r"(?P<spot_gpu>attached to Spot Preemptible VMs )?running in .+"
)
_UNITS = {"Core": "h", "Ram": "GiBy.h", "GPU": "h"}


def gcp_questions(
    wall: Callable[[], datetime], clock: Callable[[], float], *, url: str = CATALOG
) -> tuple[Question, ...]:
    """Return the questions to GCP."""
    gcp = _Gcp(url, clock, wall)
    return (Question("GCP price catalog", _EVERY_SECONDS, gcp.ask),)


class _Money(msgspec.Struct, frozen=True, rename="camel"):
    currency_code: str = ""
    units: str = "0"
    nanos: int = 0


class _Rate(msgspec.Struct, frozen=True, rename="camel"):
    unit_price: _Money


class _Expression(msgspec.Struct, frozen=True, rename="camel"):
    usage_unit: str = ""
    tiered_rates: list[_Rate] = []


class _Pricing(msgspec.Struct, frozen=True, rename="camel"):
    pricing_expression: _Expression


class _Category(msgspec.Struct, frozen=True, rename="camel"):
    usage_type: str = ""


class _Sku(msgspec.Struct, frozen=True, rename="camel"):
    description: str
    category: _Category = _Category()
    service_regions: list[str] = []
    pricing_info: list[_Pricing] = []


class _Page(msgspec.Struct, frozen=True, rename="camel"):
    skus: list[_Sku] = []
    next_page_token: str = ""


class _Token(msgspec.Struct, frozen=True):
    access_token: str


@dataclass(frozen=True)
class _Part:
    """A part that is sold by the hour: a core or a GiB of a series, or a GPU."""

    region: str
    capacity: Capacity
    what: str  # "A2 Core", "A2 Ram", "Nvidia L4"


@dataclass
class _Catalog:
    """Prices of parts; a part with several contradicting prices has none."""

    prices: dict[_Part, set[Decimal]] = field(default_factory=dict)

    def take(self, skus: Iterable[_Sku]) -> None:
        for sku in skus:
            for part, usd in _parts(sku):
                self.prices.setdefault(part, set()).add(usd)

    def usd_per_hour(self, machine: Machine, region: str, capacity: Capacity) -> Decimal | None:
        amounts = {f"{machine.series} Core": machine.cores, f"{machine.series} Ram": machine.gib}
        if machine.gpus:
            amounts[machine.gpu] = machine.gpus
        total = Decimal(0)
        for what, amount in amounts.items():
            prices = self.prices.get(_Part(region, capacity, what), set())
            if len(prices) != 1:
                return None
            total += amount * min(prices)
        return total


class _Gcp:
    def __init__(self, url: str, clock: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._url = url
        self._clock = clock
        self._wall = wall
        self._catalog = _Catalog()
        self._good_until = float("-inf")
        self._reading = asyncio.Lock()

    async def ask(self, region: str, types: Types) -> list[PriceRow]:
        """Return the price of each type in a region, on demand and on spot."""
        async with self._reading:  # all regions are in one catalog
            if self._clock() >= self._good_until:
                self._catalog = await self._read()
                self._good_until = self._clock() + _EVERY_SECONDS
        return list(self._rows(region, types))

    def _rows(self, region: str, types: Types) -> Iterator[PriceRow]:
        for instance_type in sorted(types):
            machine = machine_of(instance_type)
            for capacity in (Capacity.ON_DEMAND, Capacity.SPOT) if machine is not None else ():
                assert machine is not None, "its parts are known"
                usd = self._catalog.usd_per_hour(machine, region, capacity)
                if usd is not None:
                    yield PriceRow(
                        usd_per_hour=read_price(f"{usd:f}"),
                        instance_type=instance_type,
                        capacity=capacity,
                        region=region,
                        as_of=self._wall(),
                    )

    async def _read(self) -> _Catalog:
        headers = {"Authorization": f"Bearer {await _own_token()}"}
        catalog, params = _Catalog(), {"pageSize": str(_PAGE_SIZE), "currencyCode": "USD"}
        async with cloud_session() as session:
            for _ in range(_MOST_PAGES):
                page = await get_json(session, self._url, _Page, params=params, headers=headers)
                catalog.take(page.skus)
                if not page.next_page_token:
                    return catalog
                params = {**params, "pageToken": page.next_page_token}
        raise CloudUnavailableError(f"its catalog has more than {_MOST_PAGES} pages")


async def _own_token() -> str:
    """Return a token of the machine's or the pod's own account, as GCP's libraries do."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    try:
        async with cloud_session(by_proxy=False) as session:
            flavor = {"Metadata-Flavor": "Google"}
            return (await get_json(session, url, _Token, headers=flavor)).access_token
    except CloudUnavailableError as error:
        raise CloudUnavailableError(
            f"no token from the metadata server: {error}; the operator must run in GKE with its "
            "own service account, in a project that has the Cloud Billing API enabled"
        ) from error


def _parts(sku: _Sku) -> Iterator[tuple[_Part, Decimal]]:
    found = _PARTS.fullmatch(sku.description)
    capacity = _CAPACITIES.get(sku.category.usage_type)
    if found is None or capacity is None or not sku.pricing_info:
        return
    is_spot = found["spot"] is not None or found["spot_gpu"] is not None
    usd = _usd(sku.pricing_info[-1].pricing_expression, _UNITS[found["part"] or "GPU"])
    if is_spot != (capacity is Capacity.SPOT) or not usd:
        return
    what = found["gpu"] or f"{found['series']} {found['part']}"
    for region in sku.service_regions:
        yield _Part(region, capacity, what), usd


def _usd(expression: _Expression, unit: str) -> Decimal | None:
    """Return the price of a unit; None if it is sold in another unit, or at several prices."""
    if expression.usage_unit != unit or len(expression.tiered_rates) != 1:
        return None
    money = expression.tiered_rates[0].unit_price
    if money.currency_code != "USD":
        return None
    usd = int(money.units) + Decimal(money.nanos).scaleb(-9)
    return usd if usd > 0 else None
