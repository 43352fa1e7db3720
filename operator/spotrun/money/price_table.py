"""Price tables: prices of nodes from a sheet, the package or a cloud."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Self

from spotrun.api.capacitypool import Capacity
from spotrun.money.other_costs.storage_prices import Bucket, StoragePrice, StorageRow
from spotrun.money.price_history import EVER, Quote
from spotrun.money.price_rows import GpuRow, Offering, PriceRow, model_of
from spotrun.money.price_sheets import read_sheet
from spotrun.money.units import NO_RATE, UsdPerHour

_Key = tuple[str, str, str, Capacity]  # type, region, zone


@dataclass(frozen=True)
class PriceTable:
    """Prices from one source."""

    source: str
    rows: tuple[PriceRow, ...] = ()
    gpus: tuple[GpuRow, ...] = ()  # if there are any, the prices in `rows` do not include GPUs
    storage: tuple[StorageRow, ...] = ()
    refused: tuple[str, ...] = ()  # lines that cannot be read, and why
    as_of: datetime | None = None  # of rows that have no date of their own
    good_for: timedelta | None = None

    @classmethod
    def parse(cls, text: str, source: str, as_of: datetime | None = None) -> Self:
        """Read a sheet in one of the schemas of `price_sheets`; ValueError if it has none."""
        sheet = read_sheet(text)
        return cls(
            source=source,
            rows=tuple(row for row in sheet.rows if isinstance(row, PriceRow)),
            gpus=tuple(row for row in sheet.rows if isinstance(row, GpuRow)),
            storage=tuple(row for row in sheet.rows if isinstance(row, StorageRow)),
            refused=sheet.refused,
            as_of=as_of,
        )

    def look_up(self, wanted: Offering) -> Quote | None:
        """Return the price in the most specific row for a node; None if there is none."""
        row = self._row(wanted)
        if row is None:
            return None
        of_gpus = self._of_gpus(wanted)
        if of_gpus is None:
            return None
        return Quote(
            usd_per_hour=row.usd_per_hour + of_gpus,
            source=self.source,
            as_of=row.as_of or self.as_of,
            good_for=self.good_for,
        )

    def storage_price(self, bucket: Bucket) -> StoragePrice | None:
        """Return the price in the most specific row for a bucket; None if there is none.

        A row without a region is for buckets in every region. A row with a region is not for a
        bucket whose region is unknown.
        """
        prices = {row.about: row.price for row in self.storage}
        keys = ((store, region) for store in bucket.stores for region in (bucket.region, ""))
        price = next((prices[key] for key in keys if key in prices), None)
        return price and replace(price, source=self.source, as_of=self.as_of)

    def _row(self, wanted: Offering) -> PriceRow | None:
        """Return the most specific matching row: a row for a named node comes before all others."""
        kind, region, zone = wanted.instance_type, wanted.region, wanted.zone
        places = ((region, zone), ("", zone), (region, ""), ("", ""))
        rows = (
            *(self._named.get((wanted.node, where)) for where in (region, "")),
            *(self._typed.get((kind, *place, wanted.capacity)) for place in places),
        )
        return next((row for row in rows if row is not None), None)

    def _of_gpus(self, wanted: Offering) -> UsdPerHour | None:
        """Return the price of the node's GPUs; None: they cost something, but it is unknown."""
        if not self.gpus or not wanted.gpus:
            return NO_RATE
        model = model_of(wanted.accelerator)
        prices = {row.region: row.usd_per_hour for row in self.gpus if row.accelerator == model}
        price = prices.get(wanted.region, prices.get(""))
        return price * wanted.gpus if price is not None else None

    @cached_property
    def _named(self) -> Mapping[tuple[str, str], PriceRow]:
        return {(row.node, row.region): row for row in self._by_age if row.node}

    @cached_property
    def _typed(self) -> Mapping[_Key, PriceRow]:
        return {
            (row.instance_type, row.region, row.zone, row.capacity): row
            for row in self._by_age
            if row.instance_type
        }

    @cached_property
    def _by_age(self) -> list[PriceRow]:
        """Sort by date; the newest is last and counts. A row without a date comes first."""
        return sorted(self.rows, key=lambda row: row.as_of or EVER)
