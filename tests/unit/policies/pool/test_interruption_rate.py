from decimal import Decimal

import pytest

from spotrun.policies.pool.interruption_rate import (
    PRIOR_PER_HOUR,
    interruptions_per_hour,
    learn_rate,
)
from spotrun.state.stored.pools.pool_state import PoolState
from tests.support.jobs.builders import NOW
from tests.support.money.learned_pools import a_pool
from tests.support.money.pool_builders import a_spot_pool, an_on_demand_pool


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


@pytest.mark.parametrize(
    ("written", "rate", "then"),
    [
        (None, None, None),
        (None, 0.3, "0.3"),
        (None, 123.4, "120"),
        ("0.3", 0.37, "0.3"),  # not yet a quarter more
        ("0.3", 0.38, "0.38"),
        ("0.3", 0.2, "0.2"),
        ("0", 0.0, "0"),
    ],
)
def test_a_rate_is_written_when_it_has_changed_by_a_quarter(
    written: str | None, rate: float | None, then: str | None
) -> None:
    status = PoolState(interruptions_per_hour=None if written is None else Decimal(written))
    found = learn_rate(a_pool(interruptions_per_hour=rate), status, NOW).interruptions_per_hour
    assert (None if found is None else str(found)) == then
