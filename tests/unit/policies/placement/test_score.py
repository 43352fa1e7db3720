from decimal import Decimal

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.money.shares import Resources
from spotrun.money.transfer import Place
from spotrun.policies.placement.score import (
    Score,
    link_usd_per_hour,
    node_usd_per_hour,
    share_in,
    speed_of,
)
from spotrun.policies.pool.interruption_rate import PRIOR_PER_HOUR, interruptions_per_hour
from tests.support.money.pool_builders import a_pool, a_spot_pool, an_on_demand_pool


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
    ("one", "other", "usd"),
    [
        pytest.param(("us-east-1", "a"), ("us-east-1", "b"), 0.2, id="AWS"),
        pytest.param(("us-central1", "-a"), ("us-central1", "-f"), 0.1, id="GCP"),
        pytest.param(("eastus", "-1"), ("eastus", "-2"), 0.0, id="Azure takes nothing"),
        pytest.param(("cellar", "-left"), ("cellar", "-right"), 0.2, id="of unknown price"),
        pytest.param(("us-east-1", "a"), ("us-west-2", "a"), 0.2, id="between regions"),
        pytest.param(("us-east-1", "a"), ("us-east-1", "a"), 0.0, id="in one zone"),
    ],
)
def test_traffic_is_weighed_at_the_price_of_the_cloud_and_at_the_dearest_where_none_is_known(
    one: tuple[str, str], other: tuple[str, str], usd: float
) -> None:
    here, there = (Place(region, region + suffix) for region, suffix in (one, other))
    assert link_usd_per_hour(here, there, gb_per_hour=10.0) == pytest.approx(usd)


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
