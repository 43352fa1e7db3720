"""How often to save and how many to keep, for a budget per month: a table, and its properties."""

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.other_costs.storage_costs import HOURS_PER_MONTH
from spotrun.money.other_costs.storage_prices import StoragePrice
from spotrun.money.units import Usd
from spotrun.policies.cost.storage.strategy import (
    RAREST_SECONDS,
    SaveFacts,
    Strategy,
    choose,
    requests_per_save,
)

GIB = 2**30
S3 = StoragePrice(Decimal("0.023"), Decimal("0.005"), Decimal("0.0004"))
# Eight GPUs at $16/h in all that are lost together every five hours; 1.2 billion parameters with
# AdamW in 32 bits, of which a save costs half a second of training.
USUAL = SaveFacts(14 * GIB, 8, 0.5, 0.2, 16.0, 3, None)

# facts, dollars per month -> seconds, kept, dollars per month, is within, is rarer
TABLE = {
    "enough for all": (USUAL, "56", (236, 3, "$55.22", True, False)),
    "fewer are kept first": (USUAL, "55", (236, 2, "$54.90", True, False)),
    "then saves become rarer": (USUAL, "20", (717, 1, "$19.98", True, True)),
    "much rarer": (USUAL, "4", (12_283, 1, "$4.00", True, True)),
    "no budget is so small that nothing is saved": (
        USUAL,
        "1",
        (RAREST_SECONDS, 1, "$3.57", False, True),
    ),
    "an interval that the job gives stays": (
        replace(USUAL, every_seconds=600.0),
        "23.8",
        (600, 2, "$23.61", True, False),
    ),
    "and is said to cost too much": (
        replace(USUAL, every_seconds=600.0),
        "10",
        (600, 1, "$23.29", False, False),
    ),
    "where nothing is lost nothing is gained by saving often": (
        replace(USUAL, losses_per_hour=0.0),
        "10",
        (RAREST_SECONDS, 3, "$4.22", True, False),
    ),
    "small checkpoints": (
        replace(USUAL, checkpoint_bytes=GIB // 8),
        "10",
        (138, 3, "$4.49", True, False),
    ),
    "requests are free in a store of one's own": (
        replace(USUAL, every_seconds=60.0),
        "free",
        (60, 3, "$1.29", True, False),
    ),
}
FREE = replace(S3, usd_per_thousand_puts=Decimal(0), usd_per_thousand_gets=Decimal(0))


def said(chosen: Strategy) -> tuple[float, int, str, bool, bool]:
    usd = str(chosen.usd)
    return (chosen.every_seconds, chosen.keep, usd, chosen.is_within, chosen.is_rarer)


@pytest.mark.parametrize("case", TABLE)
def test_what_is_chosen(case: str) -> None:
    facts, budget, expected = TABLE[case]
    price, usd = (FREE, "2") if budget == "free" else (S3, budget)
    assert said(choose(facts, price, Usd(Decimal(usd)))) == expected


FACTS = st.builds(
    SaveFacts,
    checkpoint_bytes=st.integers(1, 4000 * GIB),
    processes=st.integers(1, 512),
    save_seconds=st.floats(0, 600),
    losses_per_hour=st.floats(0, 20),
    usd_per_hour=st.floats(0.01, 5000),
    keep=st.integers(1, 20),
    every_seconds=st.none(),
)


@given(FACTS, st.decimals("0.01", "100000", places=2))
def test_it_costs_least_of_all_intervals_that_the_budget_allows(
    facts: SaveFacts, budget: Decimal
) -> None:
    chosen = choose(facts, S3, Usd(budget))
    assert 1 <= chosen.keep <= facts.keep
    if not chosen.is_within:  # then none is
        rarest = choose(replace(facts, every_seconds=float(RAREST_SECONDS)), S3, Usd(budget))
        assert not rarest.is_within
        return
    assert chosen.usd <= Usd(budget)
    for seconds in (30, 60, 300, 1000, 3600, 10_000, RAREST_SECONDS):
        other = choose(
            replace(facts, every_seconds=float(seconds), keep=chosen.keep), S3, Usd(budget)
        )
        if other.is_within and other.keep == chosen.keep:
            assert total(facts, chosen) <= total(facts, other) * 1.01 + 1e-6


def total(facts: SaveFacts, one: Strategy) -> float:
    """What a month costs with this interval, lost work and all."""
    saves = HOURS_PER_MONTH * 3600 / one.every_seconds
    stalls = saves * facts.save_seconds / 3600 * facts.usd_per_hour
    return stalls + one.lost_work_usd + float(one.usd.exact)


def test_requests_grow_with_the_parts_of_large_files() -> None:
    small, large = (requests_per_save(num_bytes, 2) for num_bytes in (GIB // 64, 64 * GIB))
    assert (small.puts, large.puts) == (8, 2 * (2 + 2048 + 1) + 4)


def test_the_example_on_the_page_is_what_is_chosen() -> None:
    page = Path("docs/object-stores.md").read_text().split("a save every | kept |")[1]
    rows = re.findall(r"\| (\d+) \| (\d+) s \| (\d) \| (\S+) \| (\S+) \|", page)
    assert len(rows) == 5
    for budget, *expected in rows:
        found = choose(USUAL, S3, Usd(Decimal(budget)))
        lost = f"${found.lost_work_usd:.2f}"
        assert [f"{found.every_seconds:.0f}", str(found.keep), str(found.usd), lost] == expected
