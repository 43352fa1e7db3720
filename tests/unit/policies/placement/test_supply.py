from typing import Any

import pytest

from tests.support.jobs.builders import a_job, ago, later
from tests.support.jobs.placed_workers import OD, SPOT, places
from tests.support.money.pool_builders import a_spot_pool, on_market


@pytest.mark.parametrize(
    "rests",
    [
        {"available": False, "retry_at": later(60)},
        {"available": False},
        {"last_interruption_at": ago(600)},
    ],
)
def test_a_pool_that_was_dry_or_took_workers_away_rests_while_there_are_others(
    rests: dict[str, Any],
) -> None:
    resting = a_spot_pool("cheap", 0.3, **rests)
    (place,) = places(on_market(a_job(1), resting, SPOT, OD))
    assert place.required == ("spot",)
    (place,) = places(on_market(a_job(1), resting, OD))
    assert place.required == ("cheap",)


def test_a_pool_that_has_rested_is_asked_again() -> None:
    rested = a_spot_pool(
        "cheap", 0.3, available=False, retry_at=ago(1), last_interruption_at=ago(1000)
    )
    (place,) = places(on_market(a_job(1), rested, SPOT))
    assert place.required == ("cheap", "spot")
