"""Price sheets as people keep them: OpenCost's CSV schema, and a simple one of our own.

The simple one; region and zone may be left out or empty (then the price is valid everywhere):

    instanceType,region,zone,capacity,usdPerHour
    g5.xlarge,us-east-1,us-east-1a,Spot,0.4213

OpenCost's has no column for the capacity type, and refuses rows with columns that it does not know.
So its price of an instance type is always the on-demand price, never a spot price.

A third one has the prices of object stores, for checkpoints: by the name of a store (s3, gs, az,
the host of an endpoint) or the address of a bucket, in a region or everywhere:

    store,region,usdPerGbMonth,usdPerThousandPuts,usdPerThousandGets,usdPerGbMoved
    s3,eu-west-1,0.023,0.005,0.0004,0.02
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import INSTANCE_TYPE_LABELS
from spotrun.money.other_costs.storage_prices import StoragePrice, StorageRow
from spotrun.money.price_rows import GpuRow, PriceRow, model_of, read_price
from spotrun.money.units import UsdPerHour

Row = PriceRow | GpuRow | StorageRow
_ByColumn = Mapping[str, str]  # the cells, by the column's name in lower case
_SIMPLE = frozenset({"instancetype", "capacity", "usdperhour"})
_OPENCOST = frozenset({"instanceid", "assetclass", "instanceidfield", "marketpricehourly"})
_STORAGE = frozenset({"store", "usdpergbmonth"})
_CAPACITIES = {capacity.lower(): capacity for capacity in Capacity}


@dataclass(frozen=True)
class Sheet:
    """The rows of a sheet, and its lines that cannot be read."""

    rows: tuple[Row, ...]
    refused: tuple[str, ...]


def read_sheet(text: str) -> Sheet:
    """Read a sheet of any schema; a line that cannot be read does not affect the others."""
    lines = _lines(text)
    _, header = next(lines, (0, ""))
    columns = [name.lower() for name in _cells(header)]
    read = _schema(columns)
    rows: list[Row] = []
    refused: list[str] = []
    seen: dict[tuple[object, ...], tuple[int, Row]] = {}
    for number, line in lines:
        try:
            row = read(_by_column(columns, _cells(line)))
        except ValueError as error:
            refused.append(f"line {number}: {error}")
            continue
        first, known = seen.setdefault(row.about, (number, row))
        if known == row:
            rows.append(row)
        else:
            refused.append(
                f"line {number}: has another price than line {first} for the same {_things(row)}"
            )
    return Sheet(tuple(rows), tuple(refused))


def _things(row: Row) -> str:
    return "store" if isinstance(row, StorageRow) else "nodes"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that are neither empty nor a comment."""
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        if line.strip(" ,") and not line.startswith("#"):
            yield number, line


def _cells(line: str) -> list[str]:
    """Split one line alone, so that a quotation mark without an end affects no other line."""
    try:
        return [cell.strip() for cells in csv.reader([line], strict=True) for cell in cells]
    except csv.Error as error:
        raise ValueError(f"is not CSV: {error}") from error


def _schema(columns: list[str]) -> Callable[[_ByColumn], Row]:
    if set(columns) >= _SIMPLE:
        return _simple
    if set(columns) >= _OPENCOST:
        return _opencost
    if set(columns) >= _STORAGE:
        return _storage
    raise ValueError(
        "the first line must name the columns instanceType,region,zone,capacity,usdPerHour, those "
        "of OpenCost's price sheet, or store,region,usdPerGbMonth,usdPerThousandPuts,"
        f"usdPerThousandGets,usdPerGbMoved (they are {','.join(columns) or 'missing'})"
    )


def _by_column(columns: list[str], cells: list[str]) -> _ByColumn:
    if len(cells) > len(columns):
        raise ValueError(f"has {len(cells)} cells for {len(columns)} columns")
    return dict.fromkeys(columns, "") | dict(zip(columns, cells, strict=False))


def _simple(cells: _ByColumn) -> PriceRow:
    if not cells["instancetype"]:
        raise ValueError("instanceType is empty: say which nodes this is the price of")
    return PriceRow(
        usd_per_hour=_price(cells, "usdperhour", "usdPerHour"),
        instance_type=cells["instancetype"],
        capacity=_capacity(cells["capacity"]),
        region=cells.get("region", ""),
        zone=cells.get("zone", ""),
    )


def _opencost(cells: _ByColumn) -> Row:
    kind = cells["assetclass"].lower()
    price = _price(cells, "marketpricehourly", "MarketPriceHourly")
    region = cells.get("region", "")
    if kind == "gpu":
        return GpuRow(price, model_of(cells["instanceid"]), region)
    if kind not in {"", "node"}:  # OpenCost treats an empty class as a node
        raise ValueError(f"is about a {kind}, which a job's cost does not include: line ignored")
    node, instance_type = _which(cells)
    return PriceRow(
        usd_per_hour=price,
        instance_type=instance_type,
        region=region,
        node=node,
        as_of=_moment(cells.get("endtimestamp", "")),
    )


def _which(cells: _ByColumn) -> tuple[str, str]:
    """Return the node, or else the instance type, that a row of OpenCost's sheet is about."""
    name, id_field = cells["instanceid"], cells["instanceidfield"]
    if not name and cells.get("instancetype"):
        return "", cells["instancetype"]
    if id_field == "metadata.name" and name:
        return name, ""
    if id_field.removeprefix("metadata.labels.") in INSTANCE_TYPE_LABELS and name:
        return "", name
    raise ValueError(
        "names no node and no instance type to look up: give InstanceType without "
        f"InstanceID, or InstanceIDField metadata.name or metadata.labels.{INSTANCE_TYPE_LABELS[0]}"
        f" (it is {id_field!r})"
    )


def _storage(cells: _ByColumn) -> StorageRow:
    if not cells["store"]:
        raise ValueError("store is empty: say s3, gs, az, the host of an endpoint, or s3://bucket")

    def price(column: str) -> Decimal:
        text = cells.get(column.lower(), "")
        return _price({column: text}, column, column).decimal if text else Decimal(0)

    return StorageRow(
        store=cells["store"].rstrip("/"),
        region=cells.get("region", ""),
        price=StoragePrice(
            usd_per_gb_month=_price(cells, "usdpergbmonth", "usdPerGbMonth").decimal,
            usd_per_thousand_puts=price("usdPerThousandPuts"),
            usd_per_thousand_gets=price("usdPerThousandGets"),
            usd_per_gb_moved=price("usdPerGbMoved"),
        ),
    )


def _price(cells: _ByColumn, column: str, name: str) -> UsdPerHour:
    try:
        return read_price(cells[column])
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def _capacity(text: str) -> Capacity:
    try:
        return _CAPACITIES[text.lower()]
    except KeyError:
        raise ValueError(
            f"capacity must be one of {', '.join(Capacity)} (this is {text!r})"
        ) from None


def _moment(text: str) -> datetime | None:
    """Parse a time as OpenCost writes it, such as 2019-04-17 23:34:22 UTC."""
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(
            f"EndTimestamp must be like 2026-03-01 08:00:00 UTC (this is {text!r})"
        ) from None
