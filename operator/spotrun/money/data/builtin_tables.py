"""The price tables that come with the package; their names contain their dates.

On-demand prices of AWS and the price of S3 in one region, and list prices of GCP. Spot prices of
AWS change every hour and are not included: an old one would be a guess.
"""

from datetime import UTC, datetime
from functools import cache
from importlib import resources

from spotrun.money.price_table import PriceTable

# Each file is the price list of one day; a newer list replaces the file.
_SHEETS = ("aws_2026-07-20.csv", "gcp_2025-10-23.csv", "s3_2025-10-28.csv")


@cache
def built_in_tables() -> tuple[PriceTable, ...]:
    """Return the tables, to be put at the end of a catalog."""
    return tuple(_table(sheet) for sheet in _SHEETS)


def read_data(name: str) -> str:
    """Read a file of the package's data."""
    return resources.files("spotrun.money.data").joinpath(name).read_text("utf-8")


def _table(sheet: str) -> PriceTable:
    cloud, _, day = sheet.removesuffix(".csv").partition("_")
    as_of = datetime.fromisoformat(day).replace(tzinfo=UTC)
    source = f"built-in table of {cloud.upper()} prices of {day}"
    return PriceTable.parse(read_data(sheet), source, as_of)
