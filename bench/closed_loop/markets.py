"""The places of workers: on-demand, capacity that comes and goes, and recorded spot markets.

All of them use the market of the replay, and the ledger that bills clusters adds up the cost of
nodes.
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
"""The zones of the recorded H100 nodes: sixteen were requested every ten minutes, for two weeks in
2025."""
STEPS = (16, 10, 6)
"""The numbers of available nodes, for four hours each, repeated."""
_STEP_TICKS = 24
_TICK_SECONDS = 600.0
_DAYS = 60


@dataclass(frozen=True)
class Place:
    """A market, and the pool from which a job's workers are requested."""

    name: str
    market: VirtualMarket
    capacity: Capacity

    @property
    def pool(self) -> Pool:
        """The pool that is used."""
        (pool,) = (one for one in self.market.pools if one.capacity is self.capacity)
        return pool


def on_demand(rules: Rules) -> Place:
    """Return a place with any number of nodes, at the price of recordings and built-in table."""
    return Place("on demand", _recorded(ZONES[0], rules).market(0), Capacity.ON_DEMAND)


def steps(rules: Rules) -> Place:
    """Return a place with a changing number of nodes, at the on-demand price."""
    return Place("capacity steps", _stepwise(rules).market(0), Capacity.SPOT)


def spot(zone: str, start_tick: int, rules: Rules) -> Place:
    """Return a zone as it was recorded."""
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
