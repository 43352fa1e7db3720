"""The page "How cost is computed": its example is worked out here, and every figure compared."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from spotrun.api.capacitypool import Capacity
from spotrun.api.cost import MOST_POOLS, OTHER_POOLS
from spotrun.money.budget import reserve, stop_at, used_percent
from spotrun.money.data.builtin_tables import built_in_tables
from spotrun.money.forecast import Mark, forecast, usd_per
from spotrun.money.ledger import Segment, cost, idle
from spotrun.money.other_costs.storage_prices import Bucket
from spotrun.money.other_costs.transfer import Place, ring_usd
from spotrun.money.price_history import EVER, PriceHistory
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import Catalog
from spotrun.money.price_table import PriceTable
from spotrun.money.savings import goodput, lost_work, saved_usd
from spotrun.money.shares import Resources, share_of
from spotrun.money.units import Usd, UsdPerHour
from spotrun.observe.nodes.cloud_labels import Identity
from spotrun.observe.pools.membership import pool_name
from spotrun.policies.cost.bill import to_show

PAGE = (Path(__file__).parents[2] / "docs/how-cost-is-computed.md").read_text()
PROSE = " ".join(PAGE.split())
SIMPLE, OPENCOST, STORES = (
    PriceTable.parse(sheet, "the page")
    for sheet in re.findall(r"^```csv\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
)
SPOT = Offering("g5.12xlarge", Capacity.SPOT, "us-east-1", "us-east-1a")
ON_DEMAND = Offering("g5.12xlarge", Capacity.ON_DEMAND, "us-east-1", "us-east-1a")


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-02T{clock}").replace(tzinfo=UTC)


def table(head: str) -> list[list[str]]:
    """The cells of the table that has this in its first line."""
    lines = PAGE[PAGE.index(f"| {head} |") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def listed(table: PriceTable, wanted: Offering) -> UsdPerHour:
    quote = table.look_up(wanted)
    assert quote is not None
    return quote.usd_per_hour


NOW = at("14:02")
SHARE = share_of(Resources(gpus=2), Resources(gpus=4))
LISTED = listed(SIMPLE, ON_DEMAND)
DEARER = UsdPerHour(Decimal("2.60"))
SPOT_PRICES = PriceHistory(((EVER, listed(SIMPLE, SPOT)), (at("13:00"), DEARER)))
LIST_PRICE = PriceHistory.constant(LISTED)
FIRST = [Segment(n, at("12:00"), at("13:30"), SHARE, SPOT_PRICES) for n in (0, 1)]
SECOND = [Segment(n, at("13:32"), None, SHARE, LIST_PRICE) for n in (2, 3)]
PAID = cost([*FIRST, *SECOND], NOW).usd
RATE = LISTED * SHARE + LISTED * SHARE
STEPS, STEP_SECONDS, SAVING_SECONDS = 12_600, Decimal("0.5"), 20
MARKS = [Mark(0, Usd()), Mark(9_240, cost(FIRST, NOW).usd), Mark(12_600, PAID)]


PACES = [(6_000, listed(SIMPLE, SPOT)), (3_240, DEARER), (3_360, LISTED)]
USEFUL = sum((rate.over(steps * STEP_SECONDS) for steps, rate in PACES), Usd())


def rows_of(worker: Segment, *parts: tuple[str, str]) -> list[list[str]]:
    """What a worker has cost in parts of its time, as the page writes it."""
    return [
        [
            str(worker.worker_id),
            start,
            end,
            shown(price),
            str(worker.share),
            f"${cost([replace(worker, start=at(start), end=at(end))], at(end)).usd.decimal:.4f}",
        ]
        for start, end in parts
        if (price := worker.history.at(at(start))) is not None
    ]


def shown(price: UsdPerHour) -> str:
    """To the cent, or as listed where that is finer."""
    digits = max(2, -int(price.decimal.normalize().as_tuple().exponent))
    return f"${price.decimal:.{digits}f}/h"


def test_what_the_workers_cost() -> None:
    before, after = ("12:00", "13:00"), ("13:00", "13:30")
    rows = [row for worker in FIRST for row in rows_of(worker, before, after)]
    rows += [row for worker in SECOND for row in rows_of(worker, ("13:32", "14:02"))]
    assert table("Worker | From") == rows


def test_what_the_status_says() -> None:
    spot_node = Segment(0, at("11:57"), at("13:30"), Decimal(1), SPOT_PRICES)
    on_demand_node = Segment(0, at("13:31"), None, Decimal(1), LIST_PRICE)
    unused = idle(spot_node, FIRST, NOW) + idle(on_demand_node, SECOND, NOW)
    would_be = LISTED.over(STEPS * STEP_SECONDS)
    lost = lost_work(
        redone_steps=240, step_seconds=STEP_SECONDS, stall_seconds=Decimal(150), rate=DEARER
    )
    told = forecast(PAID, 5_040, MARKS)
    per_step, per_million = usd_per(PAID, STEPS), usd_per(PAID, STEPS * 32, 10**6)
    per_epoch = usd_per(PAID, STEPS * 32, 60_000)
    assert told is not None
    assert per_step is not None
    assert per_million is not None
    assert per_epoch is not None
    assert {field: value for field, value, _ in table("Field | Value")} == {
        "`usd`": PAID.amount,
        "`usdPerHour`": RATE.amount,
        "`idleUsd`": to_show(unused).amount,
        "`goodput`": goodput(USEFUL, PAID),
        "`usdPerStep`": str(round(per_step.decimal, 8)),
        "`usdPerMillionSamples`": str(round(per_million.decimal, 8)),
        "`usdPerEpoch`": str(round(per_epoch.decimal, 8)),
        "`onDemandUsd`": would_be.amount,
        "`savedUsd`": saved_usd(would_be, PAID).signed_amount,
        "`lostWorkUsd`": lost.usd.amount,
        "`waste.redoneUsd`": to_show(lost.redone).amount,
        "`waste.standstillUsd`": to_show(lost.standstill).amount,
        "`waste.checkpointUsd`": to_show(RATE.over(SAVING_SECONDS)).amount,
        "`waste.peersUsd`": to_show(USEFUL * Decimal("0.05")).amount,
        "`forecastUsd`": told.usd.amount,
        "`forecastLowUsd`": to_show(told.low).amount,
        "`forecastHighUsd`": to_show(told.high).amount,
    }
    assert f"stood still for {SAVING_SECONDS} seconds to save" in PROSE
    assert f"9,240 steps for {cost(FIRST, NOW).usd} on spot" in PROSE
    assert f"3,360 steps for ${cost(SECOND, NOW).usd.amount} on demand" in PROSE


def test_where_it_was_spent() -> None:
    spent = [(SPOT, FIRST), (ON_DEMAND, SECOND)]
    pools = [Identity(one.instance_type, one.zone, one.capacity) for one, _ in spent]
    rows = [
        [pool_name(pool), cost(held, NOW).usd.amount]
        for pool, (_, held) in zip(pools, spent, strict=True)
    ]
    assert table("`byPool` | Spent") == rows
    assert MOST_POOLS == 16
    assert "the first sixteen pools" in PROSE
    assert f"all others are in one sum, `{OTHER_POOLS}`" in PROSE


def test_what_the_budget_says() -> None:
    limit = Usd(10)
    kept = reserve(RATE, checkpoint_seconds=Decimal(110), shutdown_seconds=Decimal(180))
    stop = stop_at(limit=limit, spent=PAID, reserved=kept, rate=RATE, now=NOW)
    assert stop is not None
    assert {figure: value for figure, value, _ in table("Figure | Value")} == {
        "`budgetUsedPercent`": used_percent(PAID, limit),
        "held back": str(round(kept.decimal, 6)),
        "`stopAt`": f"{stop:%H:%M:%S}",
    }


def test_what_traffic_between_zones_costs() -> None:
    zones = ("us-east-1a", "us-east-1a", "us-east-1b", "us-east-1b")
    num_bytes = 25_600_000 * 4
    step = ring_usd([Place("us-east-1", zone) for zone in zones], 4, num_bytes)
    assert f"gradients of {num_bytes / 10**9} GB" in PROSE
    assert f"0.1024 x $0.02 = ${step.decimal.normalize()} beside the nodes" in PROSE
    assert f"{STEPS:,} steps cost {step * STEPS}." in PROSE


def test_what_was_useful() -> None:
    assert f"{STEPS:,} steps of half a second cost {USEFUL} of the {PAID}" in PROSE
    assert sum(steps for steps, _ in PACES) == STEPS


def test_the_sheets_on_the_page_are_understood() -> None:
    assert (SIMPLE.refused, OPENCOST.refused, STORES.refused) == ((), (), ())
    assert shown(listed(SIMPLE, Offering("a100-box", Capacity.RESERVED))) == "$3.10/h"
    assert shown(listed(OPENCOST, Offering("", Capacity.SPOT, node="node-7"))) == "$3.10/h"
    minio = STORES.storage_price(Bucket("s3://models", "minio.store:9000"))
    assert minio is not None
    assert minio.usd_per_gb_month == Decimal("0.004")
    with_gpus = Offering("", Capacity.SPOT, node="node-7", accelerator="NVIDIA-A10G", gpus=4)
    assert OPENCOST.look_up(with_gpus) is None


def test_the_dates_of_the_built_in_tables_are_those_on_the_page() -> None:
    sources = [of_day.source for of_day in built_in_tables()]
    days = re.findall(r"of (\d{4}-\d\d-\d\d)", PAGE)
    assert days == [source[-len("2026-07-20") :] for source in sources]
    assert Catalog(built_in_tables()).quote(ON_DEMAND).usd_per_hour == LISTED  # type: ignore[union-attr]
