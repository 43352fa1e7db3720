from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from spotrun.api.capacitypool import Capacity, CapacityPoolSpec
from spotrun.api.field_types.amounts import Amount
from spotrun.api.spec.own_nodes import OwnNodes
from spotrun.money.data.builtin_tables import built_in_tables
from spotrun.money.price_history import Quote
from spotrun.money.price_rows import Offering, PriceRow
from spotrun.money.price_sources import Catalog, declared_price, unpriced_because
from spotrun.money.price_table import PriceTable
from spotrun.money.units import UsdPerHour
from tests.unit.money.builders import NOON

SPOT = Offering("g5.xlarge", Capacity.SPOT, "us-east-1", "us-east-1a")
ON_DEMAND = replace(SPOT, capacity=Capacity.ON_DEMAND)


def table(source: str, *rows: str) -> PriceTable:
    return PriceTable.parse("\n".join(["instanceType,capacity,usdPerHour", *rows]), source)


OURS = table("price table ours", "g5.xlarge,Spot,0.4")
THEIRS = table("price table theirs", "g5.xlarge,Spot,0.5", "g5.xlarge,OnDemand,1")
CATALOG = Catalog((OURS, THEIRS, *built_in_tables()))


def a_pool(**declared: object) -> CapacityPoolSpec:
    given = {"capacity": Capacity.ON_DEMAND, "instance_types": ("g5.xlarge",), **declared}
    return CapacityPoolSpec.model_validate(given)


@pytest.mark.parametrize(
    ("wanted", "annotation", "of_pool", "told"),
    [
        (SPOT, "0.1", "0.2", "$0.10/h by the node's annotation spotrun.dev/usd-per-hour"),
        (SPOT, None, "0.2", "$0.20/h by usdPerHour of the CapacityPool"),
        (SPOT, None, "0", "$0.00/h by usdPerHour of the CapacityPool"),
        (SPOT, None, None, "$0.40/h by price table ours"),
        (ON_DEMAND, None, None, "$1.00/h by price table theirs"),
        (
            replace(ON_DEMAND, instance_type="p5.48xlarge"),
            None,
            None,
            "$55.04/h by built-in table of AWS prices of 2026-07-20",
        ),
        (
            Offering("a3-highgpu-8g", Capacity.SPOT, "us-east4"),
            None,
            None,
            "$14.85/h by built-in table of GCP prices of 2025-10-23",
        ),
    ],
)
def test_the_first_who_knows_is_believed_and_named(
    wanted: Offering, annotation: str | None, of_pool: str | None, told: str
) -> None:
    quote = CATALOG.quote(
        wanted,
        annotation=annotation,
        declared=declared_price(a_pool(usd_per_hour=Amount(of_pool))) if of_pool else None,
    )
    assert quote is not None
    assert f"{quote.usd_per_hour} by {quote.source}" == told


@pytest.mark.parametrize(
    "wanted",
    [
        # The price on demand is known: it is not the price of spot.
        Offering("p5.48xlarge", Capacity.SPOT, "us-east-1", "us-east-1a"),
        # The price in one region is known: it is not the price in another, nor of no region.
        Offering("p5.48xlarge", Capacity.ON_DEMAND, "eu-west-1", "eu-west-1a"),
        Offering("p5.48xlarge", Capacity.ON_DEMAND),
        Offering("p5.48xlarge", Capacity.RESERVED, "us-east-1"),
        Offering("p5.24xlarge", Capacity.ON_DEMAND, "us-east-1"),
        Offering("", Capacity.ON_DEMAND),
    ],
)
def test_nothing_is_guessed(wanted: Offering) -> None:
    assert CATALOG.quote(wanted) is None


@pytest.mark.parametrize("annotation", ["", "1,5", "free", "-1", "1e3", "0.4 USD"])
def test_an_annotation_that_is_no_price_hides_no_other(annotation: str) -> None:
    assert (
        CATALOG.quote(
            SPOT, annotation=annotation, declared=declared_price(a_pool(usd_per_hour=Amount("1")))
        )
        is None
    )
    told = unpriced_because(replace(SPOT, node="n1"), annotation)
    assert f"usd-per-hour of node n1 is {annotation!r}: write a decimal number" in told


def test_own_nodes_have_the_price_that_their_costs_come_to() -> None:
    own = OwnNodes.model_validate({"purchaseUsd": "35040", "years": "2", "utilization": "0.5"})
    quote = CATALOG.quote(ON_DEMAND, declared=declared_price(a_pool(own_nodes=own)))
    assert quote is not None
    assert f"{quote.usd_per_hour} by {quote.source}" == "$4.00/h by ownNodes of the CapacityPool"
    assert declared_price(a_pool()) is None


LIVE = PriceTable("a cloud", good_for=timedelta(minutes=15))
SAID = Quote(UsdPerHour(Decimal("0.3")), "a cloud", NOON)


def test_what_a_live_source_said_last_counts_until_it_speaks_again() -> None:
    silent = Catalog((LIVE, THEIRS))
    kept = silent.quote(SPOT, last=SAID)
    assert kept == replace(SAID, good_for=LIVE.good_for)
    assert kept.is_stale(NOON + timedelta(minutes=16))
    row = PriceRow(UsdPerHour(1), "g5.xlarge", Capacity.SPOT, "us-east-1", "us-east-1a")
    speaks = Catalog((replace(LIVE, rows=(row,)), THEIRS))
    assert speaks.quote(SPOT, last=SAID).usd_per_hour == UsdPerHour(1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "catalog",
    [
        pytest.param(Catalog((THEIRS,)), id="nobody asks it any more"),
        pytest.param(Catalog((replace(LIVE, good_for=None), THEIRS)), id="it is a sheet"),
        pytest.param(Catalog((replace(LIVE, source="x"), THEIRS)), id="another one is silent"),
        pytest.param(Catalog((THEIRS, LIVE)), id="another one is asked first"),
    ],
)
def test_what_others_said_last_does_not_count(catalog: Catalog) -> None:
    quote = catalog.quote(SPOT, last=SAID)
    assert quote is not None
    assert quote.source == "price table theirs"


def test_the_same_node_on_demand_is_asked_of_the_tables() -> None:
    quote = CATALOG.on_demand(SPOT)
    assert quote is not None
    assert (str(quote.usd_per_hour), quote.source) == ("$1.00/h", "price table theirs")


def test_who_is_told_that_a_price_is_missing_is_told_what_to_write() -> None:
    told = unpriced_because(SPOT)
    assert "g5.xlarge,us-east-1,us-east-1a,Spot,<USD per hour>" in told
    line = told.split("the line ")[1].split(" to a")[0].replace("<USD per hour>", "0.4")
    sheet = f"instanceType,region,zone,capacity,usdPerHour\n{line}\n"
    assert Catalog((PriceTable.parse(sheet, "as told"),)).quote(SPOT) is not None
    assert "without an instance type" in unpriced_because(replace(SPOT, instance_type=""))
    assert "in an unknown region" in unpriced_because(replace(SPOT, region="", zone=""))


def test_the_built_in_tables_are_whole_and_say_how_old_they_are() -> None:
    aws, gcp, s3 = built_in_tables()
    assert (aws.refused, gcp.refused) == ((), ())
    assert (len(aws.rows), len(gcp.rows)) == (390, 16)
    assert (s3.refused, len(s3.storage)) == ((), 1)
    for of_day in (aws, gcp, s3):
        assert of_day.as_of is not None
        assert of_day.source.endswith(of_day.as_of.date().isoformat())
    assert {row.capacity for row in aws.rows} == {Capacity.ON_DEMAND}
