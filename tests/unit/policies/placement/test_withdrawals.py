"""Workers that wait: when they are taken back, and asked from other pools."""

from dataclasses import replace

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.policies.pool.availability import TURNED_DOWN_SECONDS
from spotrun.state.actions import Withdraw
from spotrun.state.market import PoolFacts
from tests.support.jobs.builders import JobBuilder, a_job, ago, later
from tests.support.jobs.placed_workers import (
    DRY,
    NO_NODE,
    OD,
    REFUSED,
    SPOT,
    lacking,
    places,
    waiting,
    withdrawn,
)
from tests.support.money.pool_builders import a_spot_pool, on_market


def test_a_worker_that_waits_too_long_is_asked_from_other_pools() -> None:
    other = a_spot_pool("other", 0.5, provision_seconds=120.0)
    dry = a_spot_pool(available=False, retry_at=later(600), provision_seconds=120.0)
    job = waiting(a_job(1), 0, pools=(dry,), seconds=119)
    assert withdrawn(on_market(job, dry, other)) == []
    assert on_market(job, dry, other).decide().wake_after_seconds <= 1.0
    job = waiting(a_job(1), 0, pools=(dry,), seconds=120)
    assert withdrawn(on_market(job, dry, other)) == [(0, "BetterPool")]


def test_a_worker_that_would_be_asked_from_the_same_pools_waits_on() -> None:
    job = waiting(a_job(1), 0, pools=(SPOT,), seconds=10_000)
    assert withdrawn(on_market(job, SPOT)) == []
    assert withdrawn(on_market(job, SPOT).with_facts(turned_down=REFUSED)) == []


def test_a_worker_that_autoscalers_turn_down_is_soon_asked_from_other_pools() -> None:
    here, there = a_spot_pool("here", provision_seconds=300.0), a_spot_pool("there")

    def after(seconds: float) -> JobBuilder:
        job = waiting(a_job(1), 0, pools=(here,), seconds=seconds)
        return on_market(job, here, there).with_facts(turned_down=REFUSED)

    assert withdrawn(after(TURNED_DOWN_SECONDS - 1)) == []
    assert after(TURNED_DOWN_SECONDS - 1).decide().wake_after_seconds <= 1.0
    assert withdrawn(after(TURNED_DOWN_SECONDS)) == [(0, "BetterPool")]


@pytest.mark.parametrize(("declared", "patience"), [(False, 60.0), (True, 600.0)])
def test_until_it_was_measured_nodes_take_a_minute_or_with_an_autoscaler_ten(
    declared: bool, patience: float
) -> None:
    here, there = a_spot_pool("here", declared=declared), a_spot_pool("there")
    job = waiting(a_job(1), 0, pools=(here,), seconds=patience - 1)
    assert withdrawn(on_market(job, here, there)) == []
    job = waiting(a_job(1), 0, pools=(here,), seconds=patience)
    assert withdrawn(on_market(job, here, there)) == [(0, "BetterPool")]


def test_without_an_autoscaler_no_pool_rests_for_a_job_that_lacks_nodes_for_a_minute() -> None:
    full = a_spot_pool("full", 0.3)
    resting = a_spot_pool("resting", 0.4, last_interruption_at=ago(100))

    def after(seconds: float, *pools: PoolFacts) -> JobBuilder:
        waits = waiting(a_job(1), 0, pools=(full,), seconds=seconds + 1, **NO_NODE)
        return lacking(on_market(waits, *pools), seconds)

    def anew(seconds: float, *pools: PoolFacts) -> list[tuple[str, ...]]:
        job = lacking(on_market(a_job(1), *pools), seconds)
        return [place.required for place in places(job)]

    assert withdrawn(after(59, full, resting)) == []
    assert after(59, full, resting).decide().wake_after_seconds <= 1.0
    assert withdrawn(after(60, full, resting)) == [(0, "BetterPool")]
    assert anew(59, full, resting) == [("full",)]
    assert anew(60, full, resting) == [("full", "resting")]
    scaled = replace(full, declared=True)
    assert withdrawn(after(599, scaled, resting)) == [], "the autoscaler may make a node"
    assert anew(599, scaled, resting) == [("full",)]


def test_a_withdrawal_names_the_version_that_it_was_decided_on() -> None:
    job = waiting(a_job(1), 0, pools=(SPOT,), seconds=700)
    job = job.with_worker(
        0, node=None, version="41", asked=Capacity.SPOT, pools=("spot",), created_at=ago(700)
    )
    (action,) = (
        one
        for one in lacking(on_market(job, DRY, OD), 600).decide().actions
        if isinstance(one, Withdraw)
    )
    assert (action.uid, action.version) == ("uid-0", "41")
