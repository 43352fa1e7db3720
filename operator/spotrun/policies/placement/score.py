"""The expected cost of a worker in a pool per unit of useful work.

    [price + transfer + interruptions per hour x cost of one] / speed

This estimate ranks pools and uses floats; the money that is paid is counted elsewhere, in decimals.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from spotrun.api.capacitypool import Capacity
from spotrun.money.other_costs.transfer import DEAREST_USD_PER_GB, Place, usd_per_gb
from spotrun.money.shares import Resources, share_of
from spotrun.state.market import PoolFacts

SPOT_SHARE = 0.35
"""The share of the on-demand price that is assumed where a spot price is not known: the usual
discount is two thirds."""

# Dense half-precision tensor throughput in TFLOPS, as the vendors state it. It only serves to
# compare models before the job's own speed on them is measured.
_TFLOPS: Mapping[str, float] = {
    "T4": 65,
    "V100": 125,
    "A10G": 70,
    "L4": 121,
    "A100": 312,
    "L40S": 362,
    "H100": 989,
    "H200": 989,
    "B200": 2250,
}


@dataclass(frozen=True)
class Score:
    """One pool in numbers; all dollars are for one worker."""

    usd_per_hour: float
    is_price_known: bool
    transfer_usd_per_hour: float = 0.0
    interruptions_per_hour: float = 0.0
    interruption_usd: float = 0.0
    speed: float = 1.0

    @property
    def expected_usd_per_hour(self) -> float:
        """The price plus traffic between zones plus the cost of interruptions."""
        lost = self.interruptions_per_hour * self.interruption_usd
        return self.usd_per_hour + self.transfer_usd_per_hour + lost

    @property
    def usd_per_work(self) -> float:
        """The expected cost per hour of work at speed 1; pools are ranked by it."""
        return self.expected_usd_per_hour / self.speed


def share_in(pool: PoolFacts, worker: Resources) -> float:
    """The part of a node of the pool that a worker pays for."""
    if pool.allocatable is not None:
        return float(share_of(worker, pool.allocatable))
    if worker.devices and pool.gpus:
        return min(worker.devices / pool.gpus, 1.0)
    return 1.0


def node_usd_per_hour(pool: PoolFacts, market: Iterable[PoolFacts]) -> tuple[float, bool]:
    """The price of a node, and whether it is known.

    If it is unknown, the usual price is assumed, so that the pool is tried.
    """
    if pool.usd_per_hour is not None:
        return float(pool.usd_per_hour), True
    discount = SPOT_SHARE if pool.capacity is Capacity.SPOT else 1.0
    if pool.on_demand_usd_per_hour is not None:
        return float(pool.on_demand_usd_per_hour) * discount, False
    known = [
        float(other.usd_per_hour) / (SPOT_SHARE if other.capacity is Capacity.SPOT else 1.0)
        for other in market
        if other.usd_per_hour is not None and other.accelerator == pool.accelerator
    ]
    return (median(known) if known else 1.0) * discount, False


@functools.lru_cache(maxsize=1024)  # there are few models, and each pass asks for them
def speed_of(accelerator: str) -> float:
    """Return how fast a GPU model is in comparison to others; 1 where nothing is known."""
    words = re.split(r"[^A-Z0-9]+", accelerator.upper())
    return next((_TFLOPS[word] for word in words if word in _TFLOPS), 100.0) / 100


def link_usd_per_hour(one: Place, other: Place, gb_per_hour: float) -> float:
    """Return the cost of traffic between two places, at the highest known price if unknown."""
    price = usd_per_gb(one, other)
    return float(DEAREST_USD_PER_GB if price is None else price) * gb_per_hour
