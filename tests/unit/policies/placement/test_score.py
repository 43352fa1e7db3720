from decimal import Decimal

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.money.other_costs.transfer import Place
from spotrun.money.shares import Resources
from spotrun.policies.placement.score import (
    Score,
    link_usd_per_hour,
    node_usd_per_hour,
    share_in,
    speed_of,
)
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
