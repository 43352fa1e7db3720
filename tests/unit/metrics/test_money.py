import re
from dataclasses import replace
from decimal import Decimal

from prometheus_client import generate_latest

from spotrun.agents.answers import Published
from spotrun.api.cost import (
    OTHER_POOLS,
    Accumulators,
    Cost,
    PoolCost,
    Rate,
    Waste,
)
from spotrun.api.field_types.amounts import Amount, Percent, SignedAmount
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Pricing
from spotrun.metrics.registry import Meter
from spotrun.state.stored.cost_codec import read_cost, read_sums
from tests.support.jobs.published_jobs import job, peer
from tests.support.jobs.stored_state import stored

COST = Cost(
    usd=Amount("12.5"),
    usd_per_hour=Amount("3"),
    spot_usd=Amount("7.5"),
    on_demand_usd=Amount("10"),
    saved_usd=SignedAmount("-2.5"),
    lost_work_usd=Amount("0.5"),
    idle_usd=Amount("0.2"),
    estimated_transfer_usd=Amount("0.4"),
    goodput=Percent("89%"),
    forecast_usd=Amount("40"),
    budget_used_percent=Percent("43%"),
    pricing=Pricing.PARTIAL,
)


def series(published: Published) -> dict[str, float]:
    meter = Meter(lambda: [published], lambda: True)
    lines = generate_latest(meter.registry).decode().splitlines()
    parts = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in parts if "team=" in name}


def costs(cost: Cost | None, **labels: str) -> dict[str, float]:
    published = job(pods=0)
    known = Accumulators(unpriced_seconds=Amount("60"), useful_usd=Amount("11.2"))
    sums = known if cost is not None else None
    status = replace(published.status, cost=read_cost(cost), accumulators=read_sums(sums))
    found = series(replace(published, status=status, cost_labels=labels))
    return {
        name.partition("{")[0].removeprefix("spotrun_trainingjob_"): v for name, v in found.items()
    }


def test_a_correction_lets_no_counter_fall() -> None:
    corrected = COST.model_copy(
        update={"usd": Amount("12.4"), "corrected_usd": SignedAmount("-0.1")}
    )
    told = costs(corrected)
    assert (told["cost_usd_total"], told["cost_corrected_usd"]) == (12.5, -0.1)


def test_what_is_known_of_a_jobs_money_has_a_series() -> None:
    assert costs(COST) == {
        "cost_usd_total": 12.5,
        "cost_corrected_usd": 0,
        "spot_cost_usd_total": 7.5,
        "spot_cost_corrected_usd": 0,
        "cost_rate_usd_per_hour": 3,
        "on_demand_cost_usd_total": 10,
        "saved_usd": -2.5,
        "lost_work_cost_usd_total": 0.5,
        "useful_cost_usd_total": 11.2,
        "goodput_ratio": 0.89,
        "idle_cost_usd_total": 0.2,
        "estimated_transfer_cost_usd_total": 0.4,
        "forecast_cost_usd": 40,
        "budget_used_ratio": 0.43,
        "pricing_complete": 0,
        "unpriced_seconds_total": 60,
        "unpriced_workers": 0,
    }


def test_what_was_wasted_is_told_apart_as_far_as_it_is_known() -> None:
    waste = Waste(redone_usd=Amount("0.3"), peers_usd=Amount("0.6"), checkpoint_usd=Amount("0.1"))
    published = job(pods=0)
    status = replace(published.status, cost=read_cost(Cost(waste=waste)))

    found = series(replace(published, status=status))

    name = "spotrun_trainingjob_wasted_cost_usd_total"
    told = {key.split('what="')[1].rstrip('"}'): v for key, v in found.items() if name in key}
    assert told == {"redone": 0.3, "peers": 0.6, "checkpoint": 0.1}


def test_what_was_spent_is_told_by_pool() -> None:
    spent = [("", "0.5"), (OTHER_POOLS, "1"), ("spot-g5", "11")]
    by_pool = tuple(PoolCost(pool=pool, usd=Amount(usd)) for pool, usd in spent)
    published = job(pods=0)
    status = replace(published.status, cost=read_cost(Cost(by_pool=by_pool)))

    found = series(replace(published, status=status))

    name = "spotrun_trainingjob_pool_cost_usd_total"
    told = {re.findall('pool="(.*?)"', key)[0]: v for key, v in found.items() if name in key}
    assert told == {pool: float(usd) for pool, usd in spent}


def test_an_operator_that_restarts_says_what_was_said_before() -> None:
    before = job()
    sums = read_sums(Accumulators(useful_usd=Amount("11.2")))
    status = replace(before.status, cost=read_cost(COST), accumulators=sums)
    before = replace(before, status=status)

    after = replace(before, status=stored(before.status))

    assert series(after) == series(before)
    assert one(series(after), "cost_usd_total") == 12.5


def test_money_that_bought_nothing_is_no_money_of_which_nothing_is_known() -> None:
    cost = Cost(goodput=Percent("0%"), budget_used_percent=Percent("0%"))
    found = costs(cost)
    assert (found["goodput_ratio"], found["budget_used_ratio"]) == (0, 0)


def test_what_is_not_known_has_none() -> None:
    assert costs(None) == {"unpriced_workers": 0}
    assert costs(Cost(pricing=Pricing.PARTIAL)) == {
        "useful_cost_usd_total": 11.2,
        "pricing_complete": 0,
        "unpriced_seconds_total": 60,
        "unpriced_workers": 0,
    }


def test_a_budget_is_shown_beside_what_is_spent() -> None:
    found = series(replace(job(), budget_usd=Decimal("12.5")))

    assert one(found, "budget_usd") == 12.5


def test_workers_without_a_price_are_those_with_a_node_and_no_rate() -> None:
    pods = {0: peer(0), 1: peer(1), 2: peer(2), 3: peer(3, address=None)}
    published = job(pods=pods)
    rates = (Rate(workers=WorkerIds("0-1"), usd_per_hour="2"),)
    status = replace(published.status, accumulators=read_sums(Accumulators(rates=rates)))

    found = series(replace(published, status=status))

    assert one(found, "unpriced_workers") == 1


def one(found: dict[str, float], figure: str) -> float:
    (value,) = (v for name, v in found.items() if f"spotrun_trainingjob_{figure}{{" in name)
    return value


def test_money_can_be_added_up_by_who_pays() -> None:
    labels = {"team": "vision", "cost-center": "4711"}
    published = replace(job(), cost_labels=labels)
    status = replace(published.status, cost=read_cost(COST))
    found = series(replace(published, status=status))
    of_costs = [name for name in found if name.startswith("spotrun_trainingjob_cost_usd_total")]
    labels_of_it = 'cost_center="4711",name="job",namespace="team",project="",team="vision"'
    assert of_costs == [f"spotrun_trainingjob_cost_usd_total{{{labels_of_it}}}"]
