"""`breakeven`: the page "Rent, reserve or buy" is worked out here, and its figures compared."""

import json
import re
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.report.bills.charges import Charge
from spotrun.cli.report.break_even import flags
from spotrun.cli.report.break_even.command import comparison, understand
from spotrun.cli.report.break_even.facts import own_node, uses_of
from spotrun.cli.report.break_even.screen import as_data, screen
from spotrun.cli.text.look import Look
from spotrun.money.units import Usd
from spotrun.policies.cost.billing.parts import Category, Part

PAGE = (Path(__file__).parents[4] / "docs/break-even.md").read_text()
BLOCKS = re.findall(r"^```(?:yaml)?\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
LOOK = Look(datetime(2026, 11, 3, tzinfo=UTC), width=140)
BEGIN, END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
MONTHS = ("2026-10",)
RESERVED = ("--reserved-1y", "38.20", "--reserved-3y", "24.70")


def a_pool(name: str, capacity: str = "Spot", price: str | None = "22", **spec: Any) -> Pool:
    status: dict[str, Any] = {"node": {"gpus": 8, "accelerator": "h100"}}
    if price is not None:
        status["price"] = {"usdPerHour": price, "onDemandUsdPerHour": "55.04"}
    found = {"metadata": {"name": name}, "spec": {"capacity": capacity, **spec}, "status": status}
    return msgspec.convert(found, Pool)


OWN = a_pool("own-h100", "Reserved", None, ownNodes=yaml.safe_load(BLOCKS[0])["spec"]["ownNodes"])
POOLS = (a_pool("spot-h100"), OWN)


def asked(*typed: str) -> Namespace:
    parser = ArgumentParser()
    flags.describe(parser)
    return understand(parser.parse_args(typed))


def charged(job: str, category: Category, usd: Fraction, pool: str = "") -> Charge:
    part = Part(category, "Spot" if pool else "", pool)
    return Charge("ml", job, job, {}, part, round(usd * 10_000), BEGIN, END)


def a_bill(pool: str = "spot-h100") -> list[Charge]:
    """2,000 hours whose work stays: 6 % of what was paid was lost, and a tenth of gpt's idle."""
    gpt = Fraction(1_000 * 22)
    return [
        charged("gpt", Category.COMPUTE, gpt * 9 / 10, pool),
        charged("gpt", Category.LOST_WORK, gpt * 9 / 10 * 6 / 94, pool),
        charged("gpt", Category.IDLE, gpt / 10 * 100 / 94),
        charged("vit", Category.COMPUTE, gpt, pool),
        charged("vit", Category.LOST_WORK, gpt * 6 / 94, pool),
        charged("vit", Category.STORAGE, Fraction(5)),
    ]


def test_the_page_has_the_table() -> None:
    found, unpriced = comparison(asked(*RESERVED), POOLS, a_bill(), MONTHS)
    assert ("\n".join(screen(found, LOOK)), tuple(unpriced)) == (BLOCKS[1].rstrip(), ())


def test_the_page_has_the_price_of_an_own_node() -> None:
    node = own_node(OWN)
    amounts = re.findall(r"= \$([0-9,.]+)|\| \$([0-9,.]+) a month", PAGE)
    assert ["".join(one) for one in amounts] == [
        f"{float(usd.exact):,.2f}"
        for usd in (
            Usd(node.purchase.exact / 48),
            Usd(Fraction("7.5") * Fraction("1.3") * Fraction("0.14") * 730),
            Usd(2_500),
            node.per_month,
            Usd(node.usd_per_hour.exact),
        )
    ]


def test_the_same_for_programs() -> None:
    found, _ = comparison(asked("--months", "6"), POOLS, a_bill(), MONTHS)
    data = as_data(found)
    assert json.loads(json.dumps(data)) == data
    assert data["hoursPerMonth"] == "2000.00"
    assert [one["name"] for one in data["offers"]] == ["spot", "on demand", "own (own-h100)"]  # type: ignore[attr-defined]
    assert data["cheapest"] == [{"name": "spot", "fromMonth": 1, "toMonth": 6}]


def test_two_months_have_their_mean_and_hours_that_are_said_need_no_bill() -> None:
    twice, _ = comparison(asked(), POOLS, a_bill(), ("2026-09", "2026-10"))
    said, _ = comparison(asked("--hours-per-month", "1000", "--lost-work", "6"), POOLS, [], [])
    assert round(twice.use.hours_per_month, 3) == said.use.hours_per_month == 1000
    assert as_data(twice)["paidOff"] == as_data(said)["paidOff"]


def test_windows_take_more_own_nodes() -> None:
    windows = ("Mon-Fri 20:00-06:00 Europe/Berlin", "Sat-Sun 00:00-24:00 Europe/Berlin")
    night = asked("--window", windows[0], "--window", windows[1])
    assert night.open_share == Fraction(5 * 10 + 2 * 24 - 6, 168)  # Friday's night ends on Saturday
    found, _ = comparison(night, POOLS, a_bill(), MONTHS)
    assert [offer.nodes(found.use) for offer in found.offers] == [None, None, 7]


def test_a_window_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match='like "Sat" or "Mon-Fri"'):
        asked("--window", "Weekend 00:00-24:00")


@pytest.mark.parametrize(
    ("typed", "pools", "bill", "why"),
    [
        ((), (), a_bill(), "the cluster has no CapacityPool"),
        (("--like", "l4"), POOLS, a_bill(), "there is no CapacityPool 'l4'"),
        ((), POOLS, [], "have no use of nodes with 8 x h100: choose another --month"),
        ((), POOLS, a_bill("gone"), "have no use of nodes with 8 x h100"),
        ((), (OWN,), a_bill("own-h100"), "only the price of own (own-h100) is known"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_to_try(
    typed: tuple[str, ...], pools: tuple[Pool, ...], bill: list[Charge], why: str
) -> None:
    with pytest.raises(Refused) as refused:
        comparison(asked(*typed), pools, bill, MONTHS)
    assert why in str(refused.value)


def test_bills_of_a_pool_without_a_price_are_left_out_and_it_is_named() -> None:
    pools = (*POOLS, a_pool("new", "OnDemand", None))
    _, unpriced = comparison(asked(), pools, [*a_bill(), *a_bill("new")], MONTHS)
    assert unpriced == ("new",)


def test_what_was_idle_is_that_of_the_jobs_pools() -> None:
    uses = uses_of(a_bill())
    assert round(uses["spot-h100"].usd * 94 / 100) == 44_000
