from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.money.shares import Resources
from spotrun.money.units import NO_USD, UsdPerHour
from spotrun.policies.tuning.money import cost_of, market_rate, next_cap, whole_trial_usd
from spotrun.state.market import Market, PoolFacts
from spotrun.state.stored.cost import Cost
from tests.support.jobs.builders import a_spec, ago
from tests.support.tuning.searches import SearchBuilder, a_job, a_search, usd

DONE, PRUNED = TrialPhase.SUCCEEDED, TrialPhase.PRUNED


def limited(limit: str = "10", **trials: Any) -> SearchBuilder:
    return a_search(budget={"maxCostUsd": limit}, trials={"max": 20, "parallel": 1, **trials})


def cap(search: SearchBuilder) -> str | None:
    found = next_cap(search.snapshot(), search.status)
    return None if found is None else f"{found.decimal.normalize():f}"


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        (limited(), "10"),
        (limited(parallel=4), "2.5"),
        (limited(parallel=4).with_trial(cap="2.5"), "2.5"),
        (limited().with_trial(DONE, cost="4"), "6"),
        (limited().with_trial(DONE, cost="5"), None),
        (limited().with_trial(DONE, cost="4").with_trial(DONE, cost="4"), None),
        (limited(parallel=2).with_trial(cap="5", cost="1"), "5"),
        (limited(parallel=2).with_trial(cap="5", cost="6"), "4"),
        (limited(parallel=4).with_trial(DONE, cost="3"), "3.6"),
        (limited().with_trial(DONE, cost="10"), None),
    ],
)
def test_a_trial_gets_its_share_of_what_is_free(search: SearchBuilder, expected: str) -> None:
    assert cap(search) == expected


def test_the_end_of_a_trial_is_paid_from_its_part() -> None:
    """At $36 an hour its end, two minutes and one in which it may hear nothing, takes $2.16."""
    market = {"usd_per_hour": UsdPerHour(36)}
    after_one = limited("4.5", parallel=2).with_facts(**market).with_trial(DONE, cost="1")
    assert cap(after_one) == "3.36"
    after_one = limited("4.3", parallel=2).with_facts(**market).with_trial(DONE, cost="1")
    assert cap(after_one) is None


def test_the_end_of_a_trial_costs_no_less_after_one_that_waited_for_days() -> None:
    """The rate of that one is near nothing; in a queue a trial pays for no minute of its wait."""
    search = limited("4.3", parallel=2).with_facts(usd_per_hour=UsdPerHour(36))
    assert cap(search.with_trial(DONE, cost="1", begun_at=ago(200_000))) is None


def test_a_template_with_a_budget_of_its_own_gets_no_more() -> None:
    own = {"budget": {"maxCostUsd": "1", "onExceeded": "Fail"}}
    search = limited().with_spec()
    search.manifest["spec"]["template"]["spec"].update(own)
    assert cap(search) == "1"


def test_a_part_that_paid_for_no_more_than_an_end_is_not_given_out_again() -> None:
    search = limited("0.01").with_trial(
        TrialPhase.STOPPED, cap="0.01", reason=TuningReason.BUDGET_EXCEEDED
    )
    assert cap(search) is None


@given(
    st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=8, max_size=12),
    st.integers(2, 5),
)
def test_the_parts_never_add_up_to_more_than_the_budget(
    spendings: list[tuple[int, bool]], parallel: int
) -> None:
    """Whatever part of its money each trial spends, and in which order they end."""
    search = limited("10", parallel=parallel)
    for percent, ends in spendings:
        given_out = next_cap(search.snapshot(), search.status)
        active = sum(not one.has_ended for one in search.status.trials)
        if given_out is not None and active < parallel:
            cost = f"{(given_out * percent).decimal / 100:.6f}"
            part = f"{given_out.decimal:f}"
            search = search.with_trial(DONE if ends else TrialPhase.RUNNING, cost=cost, cap=part)
        most = [
            one.usd if one.has_ended else max(one.usd, one.cap_usd or NO_USD)
            for one in search.status.trials
        ]
        assert sum(most, NO_USD) <= usd("10.000001")


def expected(search: SearchBuilder) -> str | None:
    found = whole_trial_usd(search.snapshot(), search.status.trials)
    return None if found is None else f"{found.decimal.normalize():f}"


def test_a_trial_is_expected_to_cost_the_median_of_the_complete_ones() -> None:
    search = limited()
    assert expected(search) is None
    for cost in ("1", "9", "2"):
        search = search.with_trial(DONE, cost=cost)
    assert expected(search.with_trial(PRUNED, cost="0.1")) == "2"
    assert expected(search.with_trial(DONE, cost="3")) == "2.5"


def test_an_epoch_costs_the_median_of_what_the_jobs_say() -> None:
    search = limited()
    for number, cost in enumerate(("0.1", "0.7", "0.3")):
        job = replace(a_job(), cost=Cost(usd_per_epoch=usd(cost)))
        search = search.with_trial().with_job(number, job)
    known = search.decide().status
    assert known.cost.epoch_usd == usd("0.3")
    gone = replace(search, children={}).with_status(cost=known.cost)
    assert gone.decide().status.cost.epoch_usd == usd("0.3"), "its jobs may be deleted by now"
    assert limited().decide().status.cost.epoch_usd is None


def test_before_any_is_complete_jobs_or_the_market_tell() -> None:
    search = limited(expectedDuration="30m").with_facts(usd_per_hour=UsdPerHour(4))
    assert expected(search) == "2"
    search = search.with_trial().with_job(0, a_job(per_hour="6"))
    assert expected(search) == "3"
    assert expected(search.with_job(0, a_job(per_hour="6", forecast="1.25"))) == "1.25"


def test_the_forecast_counts_what_runs_and_what_is_to_come() -> None:
    search = limited("100").with_trial(DONE, cost="2").with_trial(PRUNED, cost="0.5")
    search = search.with_trial(cost="0.5", cap="10")
    cost = cost_of(search.snapshot(), search.status, num_left=4)
    assert cost.usd == usd("3")
    assert cost.reserved_usd == usd("9.5")
    assert cost.forecast_usd == usd("9.5")  # 3, 1.5 of the one that runs, and 4 of 1.25
    assert cost.saved_by_pruning_usd == usd("1.5")
    assert cost.budget_used_percent == 3


def test_no_forecast_is_beyond_the_budget() -> None:
    search = limited("5").with_trial(DONE, cost="2")
    assert cost_of(search.snapshot(), search.status, num_left=9).forecast_usd == usd("5")


@pytest.mark.parametrize(
    ("capacity", "rate"), [("Mixed", "1.5"), ("Spot", "1.5"), ("OnDemand", "4"), (None, None)]
)
def test_the_market_says_what_the_cheapest_fitting_nodes_cost(
    capacity: str | None, rate: str | None
) -> None:
    """A trial of two workers, each with a quarter of a node's GPUs."""
    placement = {"placement": {"capacity": capacity}} if capacity is not None else {}
    spec = a_spec(2, **placement)
    node = Resources(Decimal(32), Decimal(2**37), gpus=4)
    pools = (
        PoolFacts("a", Capacity.SPOT, usd_per_hour=Decimal(3), allocatable=node),
        PoolFacts("b", Capacity.ON_DEMAND, usd_per_hour=Decimal(8), allocatable=node),
        PoolFacts("c", Capacity.SPOT, usd_per_hour=Decimal(1), allocatable=None),
        PoolFacts("d", Capacity.SPOT, usd_per_hour=None, allocatable=node),
    )
    market = Market(pools if capacity is not None else ())
    found = market_rate(spec, market, Resources(Decimal(1), Decimal(2**30), gpus=1))
    assert found == (UsdPerHour(Decimal(rate)) if rate is not None else None)
