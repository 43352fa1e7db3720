import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from spotrun.api.tuning.words import TrialPhase, TuningPhase
from spotrun.metrics.registry import Meter
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.state import Best, Counts, TuningCost
from spotrun.runtime.asking.suggestions import timed
from spotrun.search import Nothing, Question
from tests.support.tuning.searches import SearchBuilder, a_search, usd

HERE = 'name="search",namespace="ml"'
SEARCH = (
    a_search(objective={"metric": "loss"}, budget={"maxCostUsd": "10"})
    .with_trial(TrialPhase.SUCCEEDED, value=0.5, cost="4")
    .with_status(
        phase=TuningPhase.RUNNING,
        counts=Counts(most=9, running=2, succeeded=1, pruned=3, stopped=4, failed=5),
        cost=TuningCost(usd=usd("4")),
        best=Best(0, "search-0", 0.5, 100, {"lr": 0.01}, None),
    )
)


def series(*searches: SearchBuilder, leads: bool = True, most: int = 9) -> dict[str, float]:
    def known() -> list[TuningSnapshot]:
        return [one.snapshot() for one in searches]

    meter = Meter(lambda: (), lambda: leads, most_jobs=most, searches=known)
    lines = generate_latest(meter.registry).decode().splitlines()
    parts = (line.rpartition(" ") for line in lines if line.startswith("spotrun_tuningjob"))
    return {name: float(value) for name, _, value in parts if "suggestion" not in name}


def test_the_series_of_a_search_come_from_its_status() -> None:
    found = series(SEARCH)
    assert {name: value for name, value in found.items() if HERE in name or "metric=" in name} == {
        f'spotrun_tuningjob_trials{{{HERE},state="running"}}': 2,
        f'spotrun_tuningjob_trials{{{HERE},state="succeeded"}}': 1,
        f'spotrun_tuningjob_trials{{{HERE},state="pruned"}}': 3,
        f'spotrun_tuningjob_trials{{{HERE},state="stopped"}}': 4,
        f'spotrun_tuningjob_trials{{{HERE},state="failed"}}': 5,
        f'spotrun_tuningjob_best_value{{metric="loss",{HERE}}}': 0.5,
        f"spotrun_tuningjob_cost_usd{{{HERE}}}": 4,
        f"spotrun_tuningjob_budget_left_usd{{{HERE}}}": 6,
    }
    assert found['spotrun_tuningjobs{phase="Running"}'] == 1
    assert found['spotrun_tuningjobs{phase="Failed"}'] == 0


def test_what_is_not_known_has_no_series() -> None:
    assert not [name for name in series(a_search()) if "best" in name or "left" in name]


def test_a_budget_that_was_lowered_below_what_is_spent_has_nothing_left() -> None:
    found = series(SEARCH.with_spec(budget={"maxCostUsd": "3"}))
    assert found[f"spotrun_tuningjob_budget_left_usd{{{HERE}}}"] == 0


def test_a_standby_says_nothing_of_searches() -> None:
    assert series(SEARCH, leads=False) == {}


def test_beyond_the_limit_searches_that_are_over_have_no_series() -> None:
    over = SEARCH.with_facts(name="a").with_status(phase=TuningPhase.SUCCEEDED)
    found = series(over, SEARCH, most=1)
    assert f"spotrun_tuningjob_cost_usd{{{HERE}}}" in found
    assert not [name for name in found if 'name="a"' in name]
    assert found['spotrun_tuningjobs{phase="Succeeded"}'] == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_the_time_for_a_suggestion_is_measured_also_where_there_is_none(fails: bool) -> None:
    registry = CollectorRegistry()

    async def suggest(_: Question) -> Nothing:
        if fails:
            raise ValueError("too little memory")
        return Nothing("no more")

    try:
        await timed(suggest, Histogram("took", "t", registry=registry))(None)  # type: ignore[arg-type]
    except ValueError:
        assert fails
    assert registry.get_sample_value("took_count") == 1
