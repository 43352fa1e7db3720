from dataclasses import replace

from prometheus_client import generate_latest

from spotrun.metrics.registry import Meter
from spotrun.policies.budget.spend.facts import Limit, SpendState
from tests.support.money.shared_limits import a_limit, usd

HERE = 'name="team",namespace="ml"'
STATE = SpendState(
    spent_usd=usd("12.5"),
    reserved_usd=usd("3"),
    forecast_usd=usd("40"),
    running=2,
    held=1,
    suspended=3,
)


def series(*limits: Limit, leads: bool = True) -> dict[str, float]:
    meter = Meter(lambda: (), lambda: leads, limits=lambda: [("ml", one) for one in limits])
    lines = generate_latest(meter.registry).decode().splitlines()
    parts = (line.rpartition(" ") for line in lines if line.startswith("spotrun_spendlimit"))
    return {name: float(value) for name, _, value in parts}


def test_the_series_of_a_limit_come_from_its_status() -> None:
    assert series(replace(a_limit("100"), state=STATE)) == {
        f"spotrun_spendlimit_usd{{{HERE}}}": 100,
        f"spotrun_spendlimit_spent_usd{{{HERE}}}": 12.5,
        f"spotrun_spendlimit_reserved_usd{{{HERE}}}": 3,
        f"spotrun_spendlimit_forecast_usd{{{HERE}}}": 40,
        f"spotrun_spendlimit_warn_ratio{{{HERE}}}": 0.8,
        f'spotrun_spendlimit_jobs{{{HERE},state="running"}}': 2,
        f'spotrun_spendlimit_jobs{{{HERE},state="held"}}': 1,
        f'spotrun_spendlimit_jobs{{{HERE},state="suspended"}}': 3,
    }


def test_an_unknown_forecast_has_no_series_and_a_standby_none_at_all() -> None:
    assert not any("forecast" in name for name in series(a_limit()))
    assert series(a_limit(), leads=False) == {}
