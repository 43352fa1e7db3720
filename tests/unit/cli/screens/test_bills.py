"""`bill`: whole tables, sums that add up, and rows of FOCUS."""

import csv
import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.cli.report.bills import flags
from spotrun.cli.report.bills.charges import Charge, charges, sums_by
from spotrun.cli.report.bills.command import screen
from spotrun.cli.text.look import Look
from spotrun.money.units import Usd
from spotrun.policies.cost.billing.apportion import rounded_together
from spotrun.policies.cost.billing.lines import JobFacts, Standing
from spotrun.policies.cost.billing.month_bill import Known, MonthBill, changes, fold, with_lines
from spotrun.policies.cost.billing.parts import Part, units_of

LOOK = Look(datetime(2026, 12, 1, tzinfo=UTC), width=120)
BEGIN, END = datetime(2026, 11, 3, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC)
COMPUTE = Part("compute", "Spot", "a100-spot")
GPT = {
    COMPUTE: 381_249,
    Part("lostWork", "Spot", "a100-spot"): 20_051,
    Part("idle"): 5_049,
    Part("storage"): 101,
}


def a_job(name: str, amounts: dict[Part, int], team: str, uid: str) -> JobFacts:
    return JobFacts(
        uid=uid,
        name=name,
        created_at=BEGIN,
        as_of=END,
        amounts=amounts,
        standing=Standing.GONE,
        labels={"team": team},
    )


JOBS = (
    a_job("gpt", GPT, "nlp", "aaaa"),
    a_job("vit", {Part("compute", "OnDemand", "l4"): 99_949}, "vision", "bbbb"),
    a_job("old", {Part("compute", "OnDemand", "l4"): 1_049}, "vision", "cccc"),
)


def found() -> list[Charge]:
    bill = with_lines(MonthBill("ml", "2026-11"), changes(Known(), JOBS)["2026-11"])
    return list(charges(fold(bill, ["cccc"], set())))


def test_a_bill_by_job() -> None:
    assert (
        "\n".join(screen(found(), "job", "table", LOOK))
        == """\
JOB         COMPUTE($)  LOST WORK($)  IDLE($)  STORAGE($)  TRANSFER($)  TOTAL($)
ml/gpt           38.13          2.01     0.50        0.01         0.00     40.65
ml/vit            9.99          0.00     0.00        0.00         0.00      9.99
ml/(other)        0.10          0.00     0.00        0.00         0.00      0.10
(all)            48.22          2.01     0.50        0.01         0.00     50.74"""
    )


def test_a_bill_by_a_label_for_programs() -> None:
    rows = list(csv.DictReader(screen(found(), "team", "csv", LOOK)))
    assert [(row["team"], row["usd"]) for row in rows] == [("nlp", "40.64"), ("vision", "10.10")]
    assert json.loads("\n".join(screen(found(), "team", "json", LOOK))) == rows


@pytest.mark.parametrize("by", flags.GROUPS)
def test_however_a_bill_is_added_up_it_is_the_same_sum(by: str) -> None:
    assert sum(one.total for one in sums_by(found(), by)) == 5_074


def test_rows_of_focus_have_what_the_bill_has() -> None:
    rows = list(csv.DictReader(screen(found(), "job", "focus", LOOK)))
    whole = sum(charge.units for charge in found())
    assert units_of(Usd(sum((Decimal(row["BilledCost"]) for row in rows), Decimal(0)))) == whole
    first = rows[0]
    assert list(first) == sorted(first)
    assert (first["SubAccountId"], first["ResourceId"]) == ("ml", "aaaa")
    assert (first["BillingPeriodStart"], first["BillingPeriodEnd"]) == (
        "2026-11-01T00:00:00Z",
        "2026-12-01T00:00:00Z",
    )
    assert json.loads(first["Tags"]) == {"team": "nlp"}
    assert {row["PricingCategory"] for row in rows} == {"Dynamic", "Standard", "Other"}


@given(st.lists(st.integers(-(10**9), 10**9), max_size=20))
def test_amounts_rounded_together_add_up_and_none_is_a_cent_off(amounts: list[int]) -> None:
    cents = rounded_together(amounts, 100)
    assert sum(cents) == (sum(amounts) + 50) // 100
    assert all(abs(cent * 100 - amount) < 100 for cent, amount in zip(cents, amounts, strict=True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--month 2026-13", "'2026-13' is no month, such as 2026-11"),
        (
            "--by label=colour",
            "bills have no group 'label=colour': choose one of team, cost-center",
        ),
        ("--by user", "bills have no group 'user'"),
    ],
)
def test_a_month_or_a_group_that_is_none_is_a_usage_error(
    text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = ArgumentParser()
    flags.describe(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(text.split())
    assert words in capsys.readouterr().err
