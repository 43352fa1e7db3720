from decimal import Decimal

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.decide.hazard import PRIOR_PER_HOUR, interruptions_per_hour
from spotrun.decide.score import (
    Score,
    node_usd_per_hour,
    share_in,
    speed_of,
    transfer_usd_per_hour,
)
from spotrun.money.shares import Resources
from tests.market_builders import a_pool, a_spot_pool, an_on_demand_pool


def test_the_expected_price_has_traffic_and_interruptions_in_it() -> None:
    score = Score(
        usd_per_hour=0.42,
        is_price_known=True,
        transfer_usd_per_hour=0.1,
        interruptions_per_hour=0.5,
        interruption_usd=0.1,
        speed=2.0,
    )
    assert score.expected_usd_per_hour == pytest.approx(0.57)
    assert score.usd_per_work == pytest.approx(0.285)


@pytest.mark.parametrize(
    ("megabytes", "zones", "usd"),
    [(100, 2, 25.2), (1, 2, 0.252), (100, 3, 37.8), (100, 1, 0.0)],
)
def test_a_ring_pays_for_every_time_it_crosses_zones(
    megabytes: float, zones: int, usd: float
) -> None:
    found = transfer_usd_per_hour(megabytes * 1e6, step_seconds=1.0, workers=8, zones=zones)
    assert found == pytest.approx(usd)


def test_an_unknown_price_is_taken_to_be_as_usual() -> None:
    known = an_on_demand_pool(usd=2.0)
    assert node_usd_per_hour(known, ()) == (2.0, True)
    assert node_usd_per_hour(a_spot_pool(usd=None), ()) == (0.35, False)
    nothing = a_pool("x", Capacity.SPOT, None, on_demand_usd_per_hour=None)
    assert node_usd_per_hour(nothing, (known,)) == (0.7, False)
    assert node_usd_per_hour(nothing, ()) == (0.35, False)


def test_a_worker_pays_for_its_part_of_a_node() -> None:
    worker = Resources(cpu=Decimal(4), gpus=2)
    assert share_in(a_spot_pool(gpus=8), worker) == 0.25
    assert share_in(a_spot_pool(allocatable=Resources(gpus=4)), worker) == 0.5
    assert share_in(a_spot_pool(gpus=0), worker) == 1.0


@pytest.mark.parametrize(
    ("name", "speed"),
    [("a10g", 0.7), ("nvidia-h100-80gb", 9.89), ("Tesla-V100-SXM2-16GB", 1.25), ("tpu", 1.0)],
)
def test_gpus_are_known_by_any_platforms_name(name: str, speed: float) -> None:
    assert speed_of(name) == pytest.approx(speed)


def test_a_pool_that_nothing_is_known_of_is_taken_to_be_as_usual() -> None:
    pool = a_spot_pool()
    assert interruptions_per_hour(pool, (pool,)) == pytest.approx(PRIOR_PER_HOUR)
    assert interruptions_per_hour(an_on_demand_pool(), (pool,)) == 0.0


def test_a_calm_pool_is_told_from_a_stormy_one() -> None:
    calm = a_spot_pool("calm", interruptions_24h=0, node_hours_24h=24.0)
    stormy = a_spot_pool("stormy", interruptions_24h=8, node_hours_24h=12.0)
    new = a_spot_pool("new")
    market = (calm, stormy, new)
    found = [interruptions_per_hour(pool, market) for pool in (calm, new, stormy)]
    assert found == sorted(found)


def test_pools_of_another_region_say_nothing() -> None:
    new = a_spot_pool("new")
    far = a_spot_pool("far", region="elsewhere", interruptions_24h=50, node_hours_24h=1.0)
    assert interruptions_per_hour(new, (new, far)) == pytest.approx(PRIOR_PER_HOUR)
