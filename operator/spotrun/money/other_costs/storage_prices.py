"""The prices of object stores, by store and region."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True)
class Bucket:
    """A bucket, as it is looked up in a price table."""

    address: str  # s3://bucket, gs://bucket or az://account/container
    endpoint: str = ""  # the host of a store that is not the cloud's own
    region: str = ""  # "": unknown

    @classmethod
    def of(cls, uri: str, endpoint: str = "", region: str = "") -> "Bucket":
        """Return the bucket of an address, which may have a path below the bucket."""
        scheme, _, rest = uri.partition("://")
        parts = rest.split("/")[: 2 if scheme == "az" else 1]
        return cls(f"{scheme}://{'/'.join(parts)}", endpoint, region)

    @property
    def stores(self) -> tuple[str, ...]:
        """The names under which a table may list its price, the most specific one first."""
        return (self.address, self.endpoint or self.address.partition("://")[0])


@dataclass(frozen=True)
class StoragePrice:
    """The list price of a store; a gigabyte has 2^30 bytes here, as on bills."""

    usd_per_gb_month: Decimal
    usd_per_thousand_puts: Decimal = Decimal(0)  # requests that write, copy or list
    usd_per_thousand_gets: Decimal = Decimal(0)  # all others except deletions, which are free
    usd_per_gb_moved: Decimal = Decimal(0)  # to or from another region
    source: str = ""
    as_of: datetime | None = None


@dataclass(frozen=True)
class StorageRow:
    """The price of a store in a region or ("") everywhere, as in a sheet."""

    store: str  # s3, gs, az, the host of an endpoint, or the address of a bucket
    region: str
    price: StoragePrice

    @property
    def about(self) -> tuple[object, ...]:
        """The key without the price: two rows with the same key contradict each other."""
        return (self.store, self.region)
