from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from spotrun.policies.pool.lifetimes import Life
from spotrun.state.stored.pools.pool_state import PoolState
from tests.support.jobs.builders import NOW
from tests.support.money.learned_pools import a_pool

POOL = a_pool()


@pytest.mark.parametrize(
    ("as_of", "moment", "is_news"),
    [
        (None, None, False),
        (None, NOW, True),
        (NOW, NOW, False),  # the status holds all up to then
        (NOW, NOW - timedelta(seconds=1), False),
        (NOW, NOW + timedelta(seconds=1), True),
    ],
)
def test_only_what_came_after_the_last_status_is_news(
    as_of: datetime | None, moment: datetime | None, is_news: bool
) -> None:
    assert replace(POOL, status=PoolState(as_of=as_of)).is_news(moment) is is_news


def test_nodes_that_went_away_are_not_counted() -> None:
    lives = (Life(NOW), Life(NOW, NOW + timedelta(hours=1)))
    assert replace(POOL, lives=lives).nodes == (NOW,)
