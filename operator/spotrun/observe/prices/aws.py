"""Prices of AWS: optional, and needed for spot, which no price list contains.

Two questions per region: the history of spot prices, of which the newest per type and zone counts,
and the price list for on-demand types.
"""

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_rows import PriceRow, read_price
from spotrun.money.units import UsdPerHour
from spotrun.observe.prices.live import CloudUnavailableError, Question, Types

# Spot prices change a few times a day, gradually; price lists a few times a year.
_SPOT_EVERY_SECONDS = 5 * 60.0
_LIST_EVERY_SECONDS = 12 * 3600.0
_SYSTEMS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")  # one; the account's age decides its name
_LIST_REGION = "us-east-1"  # the price list of all regions is served there


def aws_questions(wall: Callable[[], datetime]) -> tuple[Question, ...]:
    """Return the questions to AWS; raises ValueError if boto3 is missing."""
    aws = _Aws(wall)
    return (
        Question("AWS spot prices", _SPOT_EVERY_SECONDS, _in_a_thread(aws.spot)),
        Question("AWS price list", _LIST_EVERY_SECONDS, _in_a_thread(aws.on_demand)),
    )


def _in_a_thread(
    ask: Callable[[str, Types], list[PriceRow]],
) -> Callable[[str, Types], Awaitable[list[PriceRow]]]:
    async def asked(region: str, types: Types) -> list[PriceRow]:
        return await asyncio.to_thread(ask, region, types)

    return asked


class _Aws:
    """The two questions as boto3 asks them, with credentials and endpoints as it finds them.

    Its calls block: they are made in a thread.
    """

    def __init__(self, wall: Callable[[], datetime]) -> None:
        self._wall = wall
        try:
            self._boto3 = importlib.import_module("boto3")
        except ImportError as error:
            raise ValueError(
                "live prices of AWS need boto3, which is not installed: install spotrun[aws]"
            ) from error
        errors = importlib.import_module("botocore.exceptions")
        self._errors = (
            errors.BotoCoreError,
            errors.ClientError,
            # A proxy may answer in place of AWS; botocore has no error of its own for that.
            importlib.import_module("botocore.parsers").ResponseParserError,
        )
        # One short try: the process cannot end before it does, and the operator tries again itself.
        self._config = importlib.import_module("botocore.config").Config(
            connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 1}
        )

    def spot(self, region: str, types: Types) -> list[PriceRow]:
        """Return the spot price of each type in each zone now."""
        now = self._wall()
        what = {
            # As a filter: as a parameter, one type that AWS does not know makes the whole call
            # fail.
            "Filters": [{"Name": "instance-type", "Values": sorted(types)}],
            "ProductDescriptions": list(_SYSTEMS),
            "StartTime": now,  # the prices that hold now, not earlier ones
        }
        pages = self._pages("ec2", region, "describe_spot_price_history", what)
        newest: dict[tuple[str, str], Mapping[str, Any]] = {}
        for change in (change for page in pages for change in page["SpotPriceHistory"]):
            place = (change["InstanceType"], change["AvailabilityZone"])
            if place not in newest or newest[place]["Timestamp"] < change["Timestamp"]:
                newest[place] = change
        return [
            PriceRow(
                usd_per_hour=read_price(change["SpotPrice"]),
                instance_type=instance_type,
                capacity=Capacity.SPOT,
                region=region,
                zone=zone,
                as_of=now,
            )
            for (instance_type, zone), change in sorted(newest.items())
        ]

    def on_demand(self, region: str, types: Types) -> list[PriceRow]:
        """Return the list price of each type for Linux on shared machines."""
        now = self._wall()
        return [
            PriceRow(
                usd_per_hour=price,
                instance_type=instance_type,
                capacity=Capacity.ON_DEMAND,
                region=region,
                as_of=now,
            )
            for instance_type in sorted(types)
            for price in self._listed(region, instance_type)
        ]

    def _listed(self, region: str, instance_type: str) -> list[UsdPerHour]:
        """Return the price per hour in the list, if there is exactly one."""
        terms = {
            "regionCode": region,
            "instanceType": instance_type,
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
        }
        filters = [{"Type": "TERM_MATCH", "Field": f, "Value": v} for f, v in terms.items()]
        what = {"ServiceCode": "AmazonEC2", "Filters": filters}
        pages = self._pages("pricing", _LIST_REGION, "get_products", what)
        prices = {
            read_price(price["pricePerUnit"]["USD"])
            for page in pages
            for product in page["PriceList"]
            for term in json.loads(product)["terms"].get("OnDemand", {}).values()
            for price in term["priceDimensions"].values()
            if price["unit"] == "Hrs" and "USD" in price["pricePerUnit"]
        }
        return list(prices) if len(prices) == 1 else []

    def _pages(
        self, service: str, region: str, question: str, what: Mapping[str, object]
    ) -> Iterator[Mapping[str, Any]]:
        try:
            client = self._boto3.client(service, region_name=region, config=self._config)
            yield from client.get_paginator(question).paginate(**what)
        except self._errors as error:
            raise CloudUnavailableError(
                f"AWS did not answer ({error}): the operator needs network access to it, and a "
                "role that allows ec2:DescribeSpotPriceHistory and pricing:GetProducts"
            ) from error
