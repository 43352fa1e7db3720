"""Recorded markets to estimate on: which there are, and what they can tell of."""

from dataclasses import replace
from decimal import Decimal
from math import inf

import pytest

from spotrun.api.spec.placement import CapacityPolicy, Placement, Zones
from spotrun.api.spec.workers import Workers
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.simulate.estimate.spread import Spread
from spotrun.simulate.market.recorded_markets import RecordedMarket, priced, shipped
from spotrun.simulate.market.virtual_market import Prices
from spotrun.simulate.scenario import Job
from spotrun.simulate.snapshot import TEMPLATE
from tests.unit.simulate.markets import GAP, ON_DEMAND, SPOT, a_trace

MARKET = RecordedMarket((a_trace("22.2" * 9, "us-west-2a"), a_trace("3333" * 9, "us-west-2b")))


def a_job(workers: int, work: float = 4, placement: Placement | None = None) -> Job:
    spec = TrainingJobSpec(
        workers=Workers(max=workers, template=TEMPLATE), placement=placement or Placement()
    )
    return Job(work * GAP, inf, workers, workers, workers, spec=spec)


def test_what_is_shipped_is_one_market_for_each_kind_of_node_and_region() -> None:
    assert [market.name for market in shipped()] == [
        "a3-highgpu-1g in us-central1-a, us-central1-b, us-central1-c",
        "p3.2xlarge in us-east-1a, us-east-1c, us-east-1d, us-east-1f",
        "p3.2xlarge in us-east-2a, us-east-2b",
        "p3.2xlarge in us-west-2a, us-west-2b, us-west-2c",
    ]
    assert all(market.period is not None for market in shipped())


@pytest.mark.parametrize(
    ("job", "assumes", "why"),
    [
        pytest.param(a_job(5), False, None, id="as many as all zones had"),
        pytest.param(a_job(6), False, "at most 5 nodes at a time", id="more"),
        pytest.param(a_job(6), True, None, id="more are believed in"),
        pytest.param(
            a_job(4, placement=Placement(zones=Zones.SINGLE)),
            False,
            "at most 3 nodes at a time",
            id="in one zone",
        ),
        pytest.param(
            a_job(6, placement=Placement(capacity=CapacityPolicy.ON_DEMAND)),
            False,
            None,
            id="no spot is wanted",
        ),
        pytest.param(a_job(1, work=36), False, "6 h were recorded", id="longer than was recorded"),
    ],
)
def test_what_a_market_can_tell_of(job: Job, assumes: bool, why: str | None) -> None:
    lacks = MARKET.lacks(job, assume_capacity=assumes)

    assert (lacks is None) is (why is None)
    assert (why or "") in (lacks or "")


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        (Prices(), (SPOT, ON_DEMAND)),
        (Prices(Decimal("0.5")), (Decimal("0.5"), ON_DEMAND)),
        (Prices(None, Decimal(7)), (SPOT, Decimal(7))),
    ],
)
def test_prices_that_are_given_take_the_place_of_recorded_ones(
    prices: Prices, expected: tuple[Decimal, Decimal]
) -> None:
    for trace in priced(MARKET, prices).traces:
        assert (trace.spot_usd_per_hour, trace.on_demand_usd_per_hour) == expected
    assert priced(MARKET, Prices()) == replace(MARKET)


def test_a_recording_without_a_date_has_no_period() -> None:
    assert MARKET.period is None
    assert MARKET.name == "p3.2xlarge in us-west-2a, us-west-2b"


@pytest.mark.parametrize(
    ("values", "spread", "shown"),
    [
        ([3, 1, 2], Spread(1, 2, 3), ("1.0", "2.0", "3.0")),
        ([1, None], Spread(1, None, None), ("1.0", "never", "never")),
        ([1, 2, None], Spread(1, 2, None), ("1.0", "2.0", "never")),
        ([None], Spread(None, None, None), ("never", "never", "never")),
        ([], Spread(None, None, None), ("never", "never", "never")),
        ([-0.01, 1234.5], Spread(-0.01, 617.245, 1234.5), ("0.0", "617.2", "1,234.5")),
    ],
)
def test_how_far_figures_lie_apart(
    values: list[float | None], spread: Spread, shown: tuple[str, str, str]
) -> None:
    assert Spread.of(values) == spread
    assert Spread.of(values).shown(1, unknown="never") == shown
