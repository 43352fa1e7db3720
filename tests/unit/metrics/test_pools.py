from decimal import Decimal

from prometheus_client import generate_latest

from spotrun.api.capacitypool import Capacity
from spotrun.metrics.pools import KnownPool
from spotrun.metrics.registry import Meter
from spotrun.money.price_history import NodePrice
from spotrun.money.units import UsdPerHour
from spotrun.state.stored.pools.pool_state import PoolState

KNOWN = PoolState(
    nodes=3,
    price=NodePrice(usd_per_hour=UsdPerHour(Decimal("0.42"))),
    interruptions_per_hour=Decimal("0.31"),
)
SPOT = KnownPool("a", Capacity.SPOT, KNOWN)
UNKNOWN = KnownPool("b", Capacity.ON_DEMAND, PoolState())


def series(*pools: KnownPool, leads: bool = True, most: int = 9) -> dict[str, float]:
    meter = Meter(lambda: (), lambda: leads, most_jobs=most, pools=lambda: pools)
    lines = generate_latest(meter.registry).decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith("spotrun_capacitypool"))
    return {name: float(value) for name, _, value in found}


def test_the_series_of_a_pool_come_from_its_status() -> None:
    assert series(UNKNOWN, SPOT) == {
        'spotrun_capacitypool_nodes{capacity="Spot",pool="a"}': 3,
        'spotrun_capacitypool_nodes{capacity="OnDemand",pool="b"}': 0,
        'spotrun_capacitypool_node_usd_per_hour{capacity="Spot",pool="a"}': 0.42,
        'spotrun_capacitypool_interruptions_per_hour{capacity="Spot",pool="a"}': 0.31,
    }


def test_there_are_not_endlessly_many_and_none_on_a_standby() -> None:
    assert not [name for name in series(UNKNOWN, SPOT, most=1) if '"b"' in name]
    assert series(SPOT, leads=False) == {}
