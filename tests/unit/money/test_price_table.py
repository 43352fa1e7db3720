from dataclasses import replace
from datetime import UTC, datetime

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_history import Quote
from spotrun.money.price_rows import Offering
from spotrun.money.price_table import PriceTable
from tests.unit.money.builders import NOON, per_hour

SIMPLE = """\
# prices of the research account
instanceType,region,zone,capacity,usdPerHour
g5.xlarge,us-east-1,us-east-1a,Spot,0.40
g5.xlarge,,us-east-1b,Spot,0.41
g5.xlarge,us-east-1,,Spot,0.45
g5.xlarge,,,Spot,0.50
g5.xlarge,,,OnDemand,1.006

a100-box,,,Reserved,0
"""
SPOT = Offering("g5.xlarge", Capacity.SPOT, "us-east-1", "us-east-1a")


def parse(text: str) -> PriceTable:
    return PriceTable.parse(text, "price table team", NOON)


def price(text: str, wanted: Offering) -> str | None:
    quote = parse(text).look_up(wanted)
    return str(quote.usd_per_hour) if quote is not None else None


@pytest.mark.parametrize(
    ("wanted", "usd_per_hour"),
    [
        (SPOT, "$0.40/h"),
        (replace(SPOT, region=""), "$0.50/h"),
        (replace(SPOT, zone="us-east-1b"), "$0.41/h"),
        (replace(SPOT, zone="us-east-1c"), "$0.45/h"),
        (replace(SPOT, zone=""), "$0.45/h"),
        (replace(SPOT, region="eu-west-1", zone="eu-west-1a"), "$0.50/h"),
        (replace(SPOT, capacity=Capacity.ON_DEMAND), "$1.01/h"),
        (replace(SPOT, capacity=Capacity.RESERVED), None),
        (replace(SPOT, instance_type="g5.2xlarge"), None),
        (replace(SPOT, instance_type=""), None),
        (Offering("a100-box", Capacity.RESERVED), "$0.00/h"),
        (Offering("a100-box", Capacity.SPOT), None),
    ],
)
def test_the_row_that_says_most_about_a_node_is_its_price(
    wanted: Offering, usd_per_hour: str | None
) -> None:
    assert price(SIMPLE, wanted) == usd_per_hour


def test_a_price_says_where_it_comes_from_and_how_old_it_is() -> None:
    assert parse(SIMPLE).look_up(SPOT) == Quote(per_hour("0.4"), "price table team", NOON)


def test_places_may_be_left_out_and_columns_come_in_any_order() -> None:
    assert price("usdPerHour,Capacity,instanceType\n0.5,spot,g5.xlarge\n", SPOT) == "$0.50/h"
    assert (
        price("\ufeffinstanceType, capacity, usdPerHour\ng5.xlarge, Spot, 1\n", SPOT) == "$1.00/h"
    )


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        ("g5.xlarge,,,Spot,", "line 2: usdPerHour must be a decimal number of at least 0, like"),
        ("g5.xlarge,,,Spot,-1", "(this is '-1')"),
        ("g5.xlarge,,,Spot,1e3", "(this is '1e3')"),
        ("g5.xlarge,,,Spot,NaN", "(this is 'NaN')"),
        ('g5.xlarge,,,Spot,"1,006"', "(this is '1,006')"),
        ("g5.xlarge,,,Spot,$1", "(this is '$1')"),
        ("g5.xlarge,,,preemptible,1", "capacity must be one of Spot, OnDemand, Reserved (this is"),
        ("g5.xlarge,,,,1", "(this is '')"),
        (",,,Spot,1", "instanceType is empty"),
        ("g5.xlarge,,,Spot,1,2", "has 6 cells for 5 columns"),
        ("g5.xlarge,,,Spot", "(this is '')"),
        ('"g5.xlarge,,,Spot,1', "is not CSV: unexpected end of data"),
        ("x" * 200_000, "is not CSV: field larger than field limit"),
    ],
)
def test_a_row_that_is_not_understood_is_named_and_costs_the_others_nothing(
    row: str, refusal: str
) -> None:
    table = parse(f"instanceType,region,zone,capacity,usdPerHour\n{row}\nt4-box,,,Spot,0.2\n")
    assert len(table.refused) == 1
    assert table.refused[0].startswith("line 2: ")
    assert refusal in table.refused[0]
    assert [row.instance_type for row in table.rows] == ["t4-box"]


def test_rows_that_contradict_each_other_are_refused_and_repetitions_are_not() -> None:
    header = "instanceType,capacity,usdPerHour\n"
    table = parse(f"{header}g5.xlarge,Spot,1\n\n# again\ng5.xlarge,Spot,1.0\ng5.xlarge,Spot,2\n")
    assert table.refused == ("line 6: has another price than line 2 for the same nodes",)
    assert price(f"{header}g5.xlarge,Spot,1\ng5.xlarge,Spot,2\n", SPOT) == "$1.00/h"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "(they are missing)"),
        ("# nothing but a comment\n", "(they are missing)"),
        ("g5.xlarge,us-east-1,us-east-1a,Spot,0.4\n", "(they are g5.xlarge,us-east-1,"),
        ("instanceType,usdPerHour\ng5.xlarge,1\n", "must name the columns instanceType,region,"),
        ('"instanceType,capacity,usdPerHour\ng5.xlarge,Spot,1\n', "is not CSV"),
    ],
)
def test_what_is_no_price_sheet_is_refused_as_a_whole(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r".") as refusal:
        parse(text)
    assert complaint in str(refusal.value)


OPENCOST = """\
EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version
2019-04-17 23:34:22 UTC,node-7,,node,metadata.name,,0.1337,
,,us-east-1,node,,g5.xlarge,1.1,
,m5.large,,node,metadata.labels.node.kubernetes.io/instance-type,,0.1,
"""


def test_opencosts_sheet_is_understood() -> None:
    on_demand = replace(SPOT, capacity=Capacity.ON_DEMAND)
    assert parse(OPENCOST).refused == ()
    assert price(OPENCOST, on_demand) == "$1.10/h"
    assert price(OPENCOST, replace(on_demand, region="eu-west-1")) is None
    assert price(OPENCOST, Offering("m5.large", Capacity.ON_DEMAND)) == "$0.10/h"


def test_a_named_node_costs_what_its_row_says_however_it_is_had() -> None:
    quote = parse(OPENCOST).look_up(replace(SPOT, node="node-7"))
    said_at = datetime(2019, 4, 17, 23, 34, 22, tzinfo=UTC)
    assert quote == Quote(per_hour("0.1337"), "price table team", said_at)


def test_what_opencost_says_of_a_type_is_no_price_of_spot() -> None:
    assert price(OPENCOST, SPOT) is None


def test_of_two_moments_the_later_counts() -> None:
    header = "EndTimestamp,InstanceID,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly\n"
    newer, older = "2026-01-02 00:00:00 UTC", "2026-01-01 00:00:00 UTC"
    rows = f"{newer},,node,,x,2\n{older},,node,,x,1\n,,node,,x,3\n"
    assert price(header + rows, Offering("x", Capacity.ON_DEMAND)) == "$2.00/h"


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        (",i-0123,,node,spec.providerID,,1,", "names no node and no instance type to look up"),
        (",,,node,metadata.name,,1,", "names no node and no instance type to look up"),
        (",vol,,pv,metadata.name,,1,", "is about a pv"),
        (
            "yesterday,n,,node,metadata.name,,1,",
            "EndTimestamp must be like 2026-03-01 08:00:00 UTC",
        ),
        (",n,,node,metadata.name,,free,", "MarketPriceHourly must be a decimal number"),
    ],
)
def test_rows_of_opencosts_that_have_no_meaning_here_are_named(row: str, refusal: str) -> None:
    refused = parse(OPENCOST + row).refused
    assert len(refused) == 1
    assert f"line 5: {refusal}" in refused[0]


GPUS = OPENCOST + ",Quadro_RTX_4000,,gpu,nvidia.com/gpu_type,,0.75,\n"


@pytest.mark.parametrize(
    ("accelerator", "gpus", "usd_per_hour"),
    [
        ("Quadro-RTX-4000", 4, "$4.10/h"),
        ("quadro rtx 4000", 1, "$1.85/h"),
        ("", 0, "$1.10/h"),
        # Its GPUs cost something, and nobody says what: without them the price would be too low.
        ("NVIDIA-A10G", 1, None),
        ("", 1, None),
    ],
)
def test_where_a_sheet_prices_gpus_apart_a_node_costs_both(
    accelerator: str, gpus: int, usd_per_hour: str | None
) -> None:
    wanted = replace(SPOT, capacity=Capacity.ON_DEMAND, accelerator=accelerator, gpus=gpus)
    assert price(GPUS, wanted) == usd_per_hour


def test_a_gpu_may_cost_more_in_some_region() -> None:
    text = GPUS + ",Quadro_RTX_4000,us-east-1,gpu,nvidia.com/gpu_type,,0.80,\n"
    wanted = replace(SPOT, capacity=Capacity.ON_DEMAND, accelerator="Quadro-RTX-4000", gpus=1)
    assert price(text, wanted) == "$1.90/h"
