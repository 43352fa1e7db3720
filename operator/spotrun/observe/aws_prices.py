"""What AWS says its nodes cost now: optional, and needed for spot, which no price list holds.

Two questions per region: the history of spot prices, of which the newest per type and zone counts,
and the price list for types on demand. Answers are kept; where AWS does not answer, the last good
ones stay, and say how old they are.
"""

import asyncio
import importlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from spotrun.api.capacitypool import Capacity
from spotrun.kube.backoff import Backoff, Roll
from spotrun.money.rows import Offering, PriceRow, read_price
from spotrun.money.table import PriceTable
from spotrun.money.units import UsdPerHour

log = logging.getLogger(__name__)

# Spot prices change a few times a day, gradually; price lists a few times a year.
_SPOT_EVERY_SECONDS = 5 * 60.0
_LIST_EVERY_SECONDS = 12 * 3600.0
_LOOK_EVERY_SECONDS = 15.0  # for what is due, or new
_BACKOFF = Backoff(least_seconds=30.0, most_seconds=1800.0)
_SYSTEMS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")  # one, by the name of an account's age
_LIST_REGION = "us-east-1"  # the price list of all regions is served there
_MOST_TYPES = 100  # per question: more than a cluster uses, less than AWS refuses

Types = frozenset[str]


class AwsUnavailableError(Exception):
    """AWS did not say; in its own words, and what to do about it."""


@dataclass(frozen=True)
class _Question:
    """What is asked for a region, and how often."""

    source: str
    capacity: Capacity
    every_seconds: float
    ask: Callable[[str, Types], list[PriceRow]]

    @property
    def good_for(self) -> timedelta:
        """Three missed answers are no accident."""
        return timedelta(seconds=3 * self.every_seconds)


@dataclass
class _Answer:
    rows: tuple[PriceRow, ...] = ()
    types: Types = frozenset()  # that were asked for
    due_at: float = 0.0
    failures: int = 0

    def is_due(self, types: Types, now: float) -> bool:
        """What is new is asked at once, unless AWS is not answering."""
        return now >= self.due_at or (not self.failures and not types <= self.types)


class AwsPrices:
    """Asks when it is time to, and remembers."""

    def __init__(
        self,
        regions: Collection[str],
        *,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        roll: Roll,
    ) -> None:
        """Prepare to ask about these regions; raises ValueError where boto3 is missing."""
        aws = _Aws(wall)
        self._regions = frozenset(regions)
        self._questions = (
            _Question("AWS spot prices", Capacity.SPOT, _SPOT_EVERY_SECONDS, aws.spot),
            _Question("AWS price list", Capacity.ON_DEMAND, _LIST_EVERY_SECONDS, aws.on_demand),
        )
        self._clock = clock
        self._roll = roll
        self._answers: dict[tuple[str, str], _Answer] = {}

    def tables(self) -> tuple[PriceTable, ...]:
        """What is known, to stand in a catalog behind the cluster's own tables."""
        return tuple(
            PriceTable(
                source=question.source,
                rows=tuple(
                    row
                    for (source, _), answer in self._answers.items()
                    if source == question.source
                    for row in answer.rows
                ),
                good_for=question.good_for,
            )
            for question in self._questions
        )

    async def refresh(self, wanted: Iterable[Offering]) -> bool:
        """Ask what is due about these; whether anything was answered.

        Everything on AWS is asked for on demand as well: it is what spot is compared with.
        """
        regions: dict[str, set[str]] = {}
        for offering in wanted:
            if offering.region in self._regions and offering.instance_type:
                regions.setdefault(offering.region, set()).add(offering.instance_type)
        answered = [
            await self._ask(question, region, frozenset(sorted(types)[:_MOST_TYPES]))
            for region, types in sorted(regions.items())
            for question in self._questions
        ]
        return any(answered)

    async def follow(
        self,
        wanted: Callable[[], Iterable[Offering]],
        changed: Callable[[tuple[PriceTable, ...]], None],
    ) -> None:
        """Keep asking, and say what was answered, until cancelled."""
        while True:
            if await self.refresh(wanted()):
                changed(self.tables())
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _ask(self, question: _Question, region: str, types: Types) -> bool:
        answer = self._answers.setdefault((question.source, region), _Answer())
        if not answer.is_due(types, self._clock()):
            return False
        try:
            rows = await asyncio.to_thread(question.ask, region, types)
        # No answer, or one that makes no sense.
        except (AwsUnavailableError, LookupError, TypeError, ValueError) as error:
            answer.failures += 1
            pause = _BACKOFF.pause_seconds(answer.failures, self._roll)
            answer.due_at = self._clock() + pause
            if answer.failures == 1:
                log.warning("%s in %s: %s; the last ones stay", question.source, region, error)
            return False
        if answer.failures:
            log.info("%s in %s: known again", question.source, region)
        answer.rows, answer.types, answer.failures = tuple(rows), types, 0
        answer.due_at = self._clock() + question.every_seconds
        return True


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
            # What a proxy says in the place of AWS; to botocore that is no error of its own.
            importlib.import_module("botocore.parsers").ResponseParserError,
        )
        # One try, and not for long: the process cannot end before it, and we try again ourselves.
        self._config = importlib.import_module("botocore.config").Config(
            connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 1}
        )

    def spot(self, region: str, types: Types) -> list[PriceRow]:
        """The price of each type in each zone now."""
        now = self._wall()
        what = {
            # As a filter, for as a parameter one type that AWS does not know spoils the question.
            "Filters": [{"Name": "instance-type", "Values": sorted(types)}],
            "ProductDescriptions": list(_SYSTEMS),
            "StartTime": now,  # those that hold now, and no change before
        }
        said = self._pages("ec2", region, "describe_spot_price_history", what)
        newest: dict[tuple[str, str], Mapping[str, Any]] = {}
        for change in (change for page in said for change in page["SpotPriceHistory"]):
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
        """The list price of each type for Linux on shared machines."""
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
        """The price per hour in the list, if there is one and only one."""
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
            raise AwsUnavailableError(
                f"AWS did not answer ({error}): the operator needs a way to it, and a role that "
                "allows ec2:DescribeSpotPriceHistory and pricing:GetProducts"
            ) from error
