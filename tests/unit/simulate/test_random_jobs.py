"""Any job on any market: decisions come to rest, money limits hold, and nodes are not wasted."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.manifest import load
from spotrun.api.trainingjob import TrainingJob
from spotrun.simulate import replay
from spotrun.simulate.estimate.replayable_job import Replayed, replayed
from spotrun.simulate.market.virtual_market import Prices, Recordings
from spotrun.simulate.outcome import Lease, Outcome
from spotrun.simulate.scenario import Rules
from tests.unit.simulate.markets import GAP, a_trace

HOUR = 3600.0
TICKS = 90
PLACE = {"volume": {"persistentVolumeClaim": {"claimName": "checkpoints"}}}
CONTAINERS = [{"name": "trainer", "image": "train:1"}]


def limits(**choices: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Each of the fields, or not."""
    return st.fixed_dictionaries({}, optional=choices)


@st.composite
def workers(draw: st.DrawFn) -> dict[str, Any]:
    per_replica = draw(st.sampled_from([1, 1, 2]))
    least = per_replica * draw(st.sampled_from([1, 1, 2]))
    most = least * draw(st.sampled_from([1, 2, 4]))
    sizes = draw(st.none() | st.sets(st.integers(least, most), max_size=2)) or ()
    only = sorted({least, most, *sizes}) if per_replica == 1 and sizes else None
    return {
        "min": least,
        "max": most,
        "perReplica": per_replica,
        **({"sizes": only} if only else {}),
        "template": {"spec": {"containers": CONTAINERS}},
    }


placements = limits(
    onDemandBase=st.integers(0, 1),
    maxPricePercent=st.sampled_from([20, 60]),
    zones=st.sampled_from(["Single", "Any"]),
    maxPercentPerPool=st.sampled_from([30, 70]),
    maxPercentPerZone=st.sampled_from([30, 70]),
    fallbackAfter=st.sampled_from(["0s", "1m", "5h"]),
    giveBackAfter=st.sampled_from(["0s", "2h"]),
)
budgets = st.builds(
    lambda per_hour, cost: {**per_hour, **cost, "onExceeded": "Fail"},
    st.sampled_from(["1", "2.6", "5.2", "20"]).map(lambda usd: {"maxUsdPerHour": usd}),
    st.sampled_from(["5", "200"]).map(lambda usd: {"maxCostUsd": usd}) | st.just({}),
)
deadlines = st.builds(
    lambda hours, missed: {"finishWithin": f"{hours}h", "onMissed": missed},
    st.sampled_from([3, 6, 12]),
    st.sampled_from(["Auto", "Cheapest", "OnDemand"]),
)
specs = st.fixed_dictionaries(
    {"workers": workers(), "placement": placements},
    optional={"checkpoint": st.just(PLACE), "budget": budgets, "deadline": deadlines},
)
stretches = st.lists(st.tuples(st.sampled_from("..1248"), st.integers(1, 30)), min_size=1)
markets = st.lists(
    stretches.map(lambda runs: "".join(node * length for node, length in runs) * TICKS),
    min_size=1,
    max_size=3,
).map(lambda pools: [pool[:TICKS] for pool in pools])


def played(
    spec: dict[str, Any], market: list[str], dry_rate: float
) -> tuple[Replayed, Outcome, Sequence[Lease]]:
    job = load(
        {
            "apiVersion": "spotrun.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": "any"},
            "spec": spec,
        }
    )
    assert isinstance(job, TrainingJob)
    asked = replayed(job, work_hours=3, checkpoint_seconds=GAP, now=datetime.now(UTC))
    zones = [f"us-west-2{letter}" for letter in "abc"]
    traces = [
        a_trace(pool, zone, capacity_probed=8) for pool, zone in zip(market, zones, strict=False)
    ]
    rules = Rules(checkpoint_seconds=asked.checkpoint_seconds, on_demand_dry_rate=dry_rate)
    market_then = Recordings(traces, rules, Prices()).market(0)
    job_then = replace(asked.job, reach_seconds=TICKS * GAP)
    course = replay.play(job_then, market_then, rules)
    return asked, Outcome.of("spotrun", course, job_then, market_then), course.leases


def check(spec: dict[str, Any], market: list[str], dry_rate: float = 0.0) -> None:
    asked, came, leases = played(spec, market, dry_rate)  # raises where decisions never rest

    hours = came.finish_hours or TICKS * GAP / HOUR
    given_back = [one.end - one.start for one in leases if not one.was_taken]
    thrown_away = [seconds for seconds in given_back if 1 < seconds < GAP]
    assert len(thrown_away) <= asked.job.workers * (2 + hours / 3)
    if asked.max_cost_usd is not None:
        # A node is paid here for two minutes before the operator sees it.
        unseen = 3 * Decimal(came.launches) * 2 / 60
        assert came.cost_usd <= asked.max_cost_usd * Decimal("1.02") + unseen


TEMPLATE = {"spec": {"containers": CONTAINERS}}
PAIR = {"min": 2, "max": 2, "perReplica": 2, "template": TEMPLATE}
SOME = {"max": 4, "sizes": [1, 3, 4], "template": TEMPLATE}
BEHIND = {"finishWithin": "3h", "onMissed": "OnDemand"}


@pytest.mark.parametrize(
    ("spec", "market"),
    [
        pytest.param(
            {"workers": PAIR, "budget": {"maxUsdPerHour": "1", "onExceeded": "Fail"}},
            ["4" * TICKS],
            id="not even spot can be paid",
        ),
        pytest.param(
            {"workers": PAIR, "budget": {"maxUsdPerHour": "2.6", "onExceeded": "Fail"}},
            ["2" + "." * TICKS],
            id="spot can be paid, and is not to be had",
        ),
        pytest.param(
            {
                "workers": SOME,
                "deadline": BEHIND,
                "budget": {"maxUsdPerHour": "5.2", "onExceeded": "Fail"},
            },
            ["4" * TICKS],
            id="spot can be paid, and on-demand would be in time",
        ),
    ],
)
def test_no_node_is_made_for_what_the_limit_per_hour_does_not_pay(
    spec: dict[str, Any], market: list[str]
) -> None:
    check(spec, market)


@pytest.mark.parametrize("kept", ["0s", "20m", "2h"])
@pytest.mark.parametrize("fallback", ["0s", "10m", "5h"])
def test_nodes_that_are_given_back_leave_time_to_ask_for_others(kept: str, fallback: str) -> None:
    four = {"min": 4, "max": 4, "template": TEMPLATE}
    placement = {"giveBackAfter": kept, "fallbackAfter": fallback}
    spec = {"workers": four, "placement": placement, "checkpoint": PLACE}

    _, came, _ = played(spec, ["4" * 10 + "1" * TICKS], dry_rate=0.0)

    assert came.finish_hours is not None
    assert came.on_demand_hours > 0


@given(spec=specs, market=markets, dry_rate=st.sampled_from([0.0, 0.0, 0.3]))
def test_any_job_on_any_market(spec: dict[str, Any], market: list[str], dry_rate: float) -> None:
    check(spec, market, dry_rate)
