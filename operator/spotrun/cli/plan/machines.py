"""The GPU machines of the built-in tables: how many GPUs, their memory, speed and price."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from spotrun.api.capacitypool import Capacity
from spotrun.money.data.builtin_tables import built_in_tables, read_data

_SHEET = "gpus_2026-07-20.csv"
_MIB = 2**20
_DENSE_TFLOPS = {
    "a10g": 70.0,
    "l4": 121.0,
    "l40s": 362.0,
    "a100": 312.0,
    "h100": 989.0,
    "h200": 989.0,
    "b200": 2250.0,
}
"""The speed of products of bf16 matrices without sparsity, from NVIDIA's data sheets."""
_WITHOUT_BF16 = frozenset({"t4", "t4g", "v100"})
"""Older than Ampere: their 16-bit numbers are float16, with another range."""


@dataclass(frozen=True)
class Machine:
    """A type of machine, at its lowest on-demand price in the tables."""

    instance_type: str
    gpu: str
    gpus: int
    memory_bytes: int  # of each GPU
    usd_per_hour: Decimal
    region: str

    @property
    def has_bf16(self) -> bool:
        """Whether its GPUs compute in bf16."""
        return self.gpu not in _WITHOUT_BF16

    @property
    def flops(self) -> float | None:
        """Operations a second of each GPU in bf16 at its best; None if that is unknown."""
        tera = _DENSE_TFLOPS.get(self.gpu)
        return None if tera is None else tera * 1e12


@cache
def machines() -> tuple[Machine, ...]:
    """Return all machines whose price is known."""
    return tuple(_read())


def _read() -> Iterator[Machine]:
    lines = (line for line in read_data(_SHEET).splitlines() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        prices = [
            (price.usd_per_hour.decimal, price.region)
            for table in built_in_tables()
            for price in table.rows
            if price.instance_type == row["instanceType"] and price.capacity is Capacity.ON_DEMAND
        ]
        usd, region = min(prices)
        yield Machine(
            instance_type=row["instanceType"],
            gpu=row["gpu"],
            gpus=int(row["gpus"]),
            memory_bytes=int(row["memoryMiB"]) * _MIB,
            usd_per_hour=usd,
            region=region,
        )
