"""The cost of checkpoints in an object store: gigabyte-months, requests, and traffic."""

from dataclasses import dataclass
from fractions import Fraction

from spotrun.money.other_costs.storage_prices import StoragePrice
from spotrun.money.units import NO_USD, Number, Usd

BYTES_PER_GB = 2**30
HOURS_PER_MONTH = 730
"""The hours of an average month; bills use the hours of the actual month."""
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Usage:
    """Amounts that a store charges for: bytes over time, requests, bytes that crossed regions."""

    gb_hours: Fraction = Fraction(0)
    puts: int = 0
    gets: int = 0
    moved_bytes: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.gb_hours + other.gb_hours,
            self.puts + other.puts,
            self.gets + other.gets,
            self.moved_bytes + other.moved_bytes,
        )

    def usd(self, price: StoragePrice) -> "StorageUsd":
        """Return what it costs."""
        a_month = Fraction(price.usd_per_gb_month) / HOURS_PER_MONTH
        of_puts = self.puts * Fraction(price.usd_per_thousand_puts)
        of_gets = self.gets * Fraction(price.usd_per_thousand_gets)
        moved = Fraction(self.moved_bytes, BYTES_PER_GB) * Fraction(price.usd_per_gb_moved)
        return StorageUsd(
            stored=Usd(self.gb_hours * a_month),
            requests=Usd((of_puts + of_gets) / 1000),
            transfer=Usd(moved),
        )


NO_USAGE = Usage()


@dataclass(frozen=True)
class StorageUsd:
    """A cost by its categories."""

    stored: Usd = NO_USD
    requests: Usd = NO_USD
    transfer: Usd = NO_USD

    @property
    def total(self) -> Usd:
        """The sum of them all."""
        return self.stored + self.requests + self.transfer

    def __add__(self, other: "StorageUsd") -> "StorageUsd":
        return StorageUsd(
            self.stored + other.stored,
            self.requests + other.requests,
            self.transfer + other.transfer,
        )

    @property
    def as_stored(self) -> "StorageUsd":
        """The money, as exact as the API's form."""
        return StorageUsd(self.stored.as_stored, self.requests.as_stored, self.transfer.as_stored)


def gb_hours(num_bytes: int, seconds: Number) -> Fraction:
    """Return the gigabyte-hours of bytes that are kept for a time."""
    return Fraction(num_bytes, BYTES_PER_GB) * Fraction(seconds) / _SECONDS_PER_HOUR


def usd_per_month(num_bytes: int, price: StoragePrice) -> Usd:
    """Return the monthly cost of this number of bytes, without requests and traffic."""
    return Usd(Fraction(num_bytes, BYTES_PER_GB) * Fraction(price.usd_per_gb_month))
