"""The places of workers: on demand, capacity that comes and goes, and recorded spot markets.

All of them are the replay's market, and what a node costs is added up by the ledger that bills
clusters.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import cycle, islice
from pathlib import Path

from spotrun.api.capacitypool import Capacity
from spotrun.simulate.market.trace import Kind, Trace, read
from spotrun.simulate.market.virtual_market import Pool, Prices, Recordings, VirtualMarket
from spotrun.simulate.scenario import Rules

ZONES = ("us-central1-a", "us-central1-b", "us-central1-c")
"""The zones of the recorded H100 nodes: sixteen were asked for every ten minutes, for two weeks of
2025."""
STEPS = (16, 10, 6)
"""The nodes that can be had, for four hours each, again and again."""
_STEP_TICKS = 24
_TICK_SECONDS = 600.0
_DAYS = 60


@dataclass(frozen=True)
class Place:
    """A market, and which of its pools a job's workers are asked from."""

    name: str
    market: VirtualMarket
    capacity: Capacity

    @property
    def pool(self) -> Pool:
        """The one that is asked."""
        (pool,) = (one for one in self.market.pools if one.capacity is self.capacity)
        return pool


def on_demand(rules: Rules) -> Place:
    """Return a place with all nodes wanted, at the recordings' and the built-in table's price."""
    return Place("on demand", _recorded(ZONES[0], rules).market(0), Capacity.ON_DEMAND)


def steps(rules: Rules) -> Place:
    """Return a place with the nodes that others leave, at the on-demand price."""
    return Place("capacity steps", _stepwise(rules).market(0), Capacity.SPOT)


def spot(zone: str, start_tick: int, rules: Rules) -> Place:
    """A zone as it was recorded."""
    return Place(f"spot {zone}", _recorded(zone, rules).market(start_tick), Capacity.SPOT)


@cache
def _recorded(zone: str, rules: Rules) -> Recordings:
    return Recordings([_trace(zone)], rules, Prices())


@cache
def _trace(zone: str) -> Trace:
    folder = Path(str(files("spotrun.simulate") / "data"))
    (path,) = folder.glob(f"skynomad-h100__*__{zone}__*.json")
    return read(path)


@cache
def _stepwise(rules: Rules) -> Recordings:
    real = _trace(ZONES[0])
    in_turn = (nodes for nodes in cycle(STEPS) for _ in range(_STEP_TICKS))
    ticks = round(_DAYS * 86_400 / _TICK_SECONDS)
    trace = Trace(
        name="capacity-steps.json",
        zone=real.zone,
        region=real.region,
        instance_type=real.instance_type,
        gpu=real.gpu,
        gpus_per_node=1,
        kind=Kind.PREEMPTION,
        capacity_probed=max(STEPS),
        gap_seconds=_TICK_SECONDS,
        start=None,
        available=tuple(islice(in_turn, ticks)),
        spot_usd_per_hour=real.on_demand_usd_per_hour,
        on_demand_usd_per_hour=real.on_demand_usd_per_hour,
    )
    return Recordings([trace], rules, Prices())
