"""Recordings: what is read of a file, and how a bad one is refused."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spotrun.simulate.market.trace import Kind, read, region_of
from tests.unit.simulate.markets import a_file


def test_a_recording_is_read_exactly(tmp_path: Path) -> None:
    trace = read(a_file(tmp_path))

    assert trace.available == (0, 1, 2, 2)
    assert trace.spot_usd_per_hour == tuple(map(Decimal, ("1.25", "1.25", "1.5", "1.5")))
    assert trace.on_demand_usd_per_hour == Decimal("3.06")
    assert (trace.zone, trace.region, trace.kind) == ("us-west-2a", "us-west-2", Kind.AVAILABILITY)
    assert trace.start == datetime(2023, 2, 15, 22, 8, 16, tzinfo=UTC)
    assert trace.seconds == 2400


@pytest.mark.parametrize("absent", [None, ...])
def test_what_recorders_did_not_know_may_be_null_or_absent(tmp_path: Path, absent: object) -> None:
    path = a_file(tmp_path, spot_price=absent, on_demand_price=absent, start_utc=absent)

    trace = read(path)

    assert trace.spot_usd_per_hour is None
    assert trace.on_demand_usd_per_hour is None
    assert trace.start is None


def test_a_price_may_be_the_same_for_all_ticks(tmp_path: Path) -> None:
    assert read(a_file(tmp_path, spot_price=2)).spot_usd_per_hour == Decimal(2)


def test_fields_that_nobody_asked_for_do_no_harm(tmp_path: Path) -> None:
    assert read(a_file(tmp_path, cloud=None, source=..., weather="fine")).capacity_probed == 2


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"available": ...}, "available is missing"),
        ({"available": "0110"}, "available is '0110', not a list"),
        ({"available": []}, "available has 0 ticks"),
        (
            {"available": [0, 1, 3, 2]},
            "available[2] is '3', not a whole number from 0 to capacity_probed (2)",
        ),
        ({"available": [0, -1, 2, 2]}, "available[1] is '-1', not a whole number"),
        ({"available": [0, 1.5, 2, 2]}, "available[1] is '1.5', not a whole number"),
        ({"available": [True, 1, 2, 2]}, "available[0] is 'True', not a whole number"),
        ({"available": [0, None, 2, 2]}, "available[1] is null, not a whole number"),
        ({"spot_price": [1.0]}, "spot_price has 1 prices, and `available` 4 ticks"),
        ({"spot_price": [1, 1, "x", 1]}, "spot_price[2] is 'x', not a price in USD per hour"),
        ({"spot_price": [1, 1, 1, None]}, "spot_price[3] is null, not a price"),
        ({"spot_price": -1}, "spot_price is '-1', not a price"),
        ({"spot_price": float("nan")}, "spot_price is 'nan', not a price"),
        ({"on_demand_price": {}}, "on_demand_price is an object, not a price"),
        ({"gap_seconds": 0}, "gap_seconds is '0', not a number from 1 to 86400"),
        ({"gap_seconds": None}, "gap_seconds is null"),
        ({"capacity_probed": 0}, "capacity_probed is '0', not a whole number of at least 1"),
        ({"kind": "hope"}, "kind is 'hope', not one of availability, preemption"),
        ({"kind": []}, "kind is a list, not one of"),
        ({"start_utc": "yesterday"}, "start_utc is 'yesterday', not a time like"),
        ({"zone": ""}, "zone is '', not a text"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_field(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=r"zone\.json: ") as refused:
        read(a_file(tmp_path, **changes))

    assert f"zone.json: {complaint}" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("{", "is not JSON"), ("[]", "holds no JSON object"), ("\xff", "is not JSON")],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(ValueError, match=r"other\.json") as refused:
        read(path)

    assert complaint in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.json cannot be read: No such file"):
        read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-east-1a", "us-east-1"),
        ("ap-southeast-2c", "ap-southeast-2"),
        ("us-gov-west-1a", "us-gov-west-1"),
        ("us-central1-b", "us-central1"),
        ("northamerica-northeast1-a", "northamerica-northeast1"),
        ("unknown-asg", "unknown-asg"),
    ],
)
def test_regions_are_found_in_the_names_of_zones(zone: str, region: str) -> None:
    assert region_of(zone) == region
