"""Live prices over HTTP: spot from moto's EC2, a process of its own; the price list played by us.

moto has no price list.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_history import Quote
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import Catalog
from spotrun.money.price_table import PriceTable
from spotrun.observe.prices.aws import aws_questions
from spotrun.observe.prices.live import LivePrices
from tests.integration.observe.ec2 import Ec2, credentials
from tests.integration.observe.price_list import PriceList, product
from tests.unit.money.builders import per_hour

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SPOT = Offering("g4dn.xlarge", Capacity.SPOT, "us-east-1", "us-east-1a")
ON_DEMAND = replace(SPOT, capacity=Capacity.ON_DEMAND)
MOTOS_PRICE = per_hour("0.00001")


class Desk:
    """The prices as an operator asks for them, and time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.seconds = 0.0
        self.prices = LivePrices(
            ["us-east-1", "eu-west-1"],
            aws_questions(lambda: self.now),
            clock=lambda: self.seconds,
            roll=lambda: 1.0,
        )

    @property
    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    def reach_ec2_at(self, url: str) -> None:
        self._monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", url)

    async def ask(self, *wanted: Offering) -> bool:
        return await self.prices.refresh(wanted or (SPOT,))

    def quote(self, wanted: Offering) -> Quote | None:
        return Catalog(self.prices.tables()).quote(wanted)


@pytest.fixture(scope="module")
def ec2() -> Iterator[Ec2]:
    server = Ec2()
    yield server
    server.end()


@pytest.fixture
async def price_list() -> AsyncIterator[PriceList]:
    played = PriceList(
        product("g4dn.xlarge", "0.5260000000"),
        product("g4dn.xlarge", "0.7100000000", operatingSystem="Windows"),
        product("g4dn.xlarge", "0.5790000000", tenancy="Dedicated"),
        product("g4dn.xlarge", "0.6150000000", regionCode="eu-west-1"),
        *(product("p3.2xlarge", price) for price in ("3.06", "3.060", "3.06")),
        *(product("p3.8xlarge", price) for price in ("12.24", "12.24", "11.99")),
    )
    async with TestServer(played.app()) as server:
        played.url = str(server.make_url(""))
        yield played


@pytest.fixture
def desk(ec2: Ec2, price_list: PriceList, monkeypatch: pytest.MonkeyPatch) -> Desk:
    credentials(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", price_list.url)
    desk = Desk(monkeypatch)
    desk.reach_ec2_at(ec2.url)
    return desk


async def test_spot_prices_are_those_of_the_zone(desk: Desk) -> None:
    assert desk.quote(SPOT) is None
    assert await desk.ask()
    quote = desk.quote(SPOT)
    assert quote == Quote(MOTOS_PRICE, "AWS spot prices", NOON, timedelta(minutes=15))
    assert desk.quote(replace(SPOT, zone="")) is None
    assert desk.quote(replace(SPOT, region="us-west-2", zone="us-west-2a")) is None


async def test_who_follows_is_told_what_was_answered(desk: Desk) -> None:
    told: asyncio.Queue[tuple[PriceTable, ...]] = asyncio.Queue()
    following = asyncio.create_task(desk.prices.follow(lambda: [SPOT], told.put_nowait))
    tables = await asyncio.wait_for(told.get(), timeout=30)
    following.cancel()
    assert tables == desk.prices.tables()
    assert [table.source for table in tables] == ["AWS spot prices", "AWS price list"]
    assert [bool(table.rows) for table in tables] == [True, True]


async def test_other_regions_are_not_asked_about(desk: Desk, price_list: PriceList) -> None:
    assert not await desk.ask(replace(SPOT, region="us-central1", zone="us-central1-a"))
    assert price_list.num_asked == 0


async def test_a_type_that_aws_does_not_know_spoils_nothing(desk: Desk) -> None:
    ours = replace(SPOT, instance_type="box-under-the-desk")
    assert await desk.ask(ours, SPOT)
    assert desk.quote(ours) is None
    assert desk.quote(SPOT) is not None


async def test_list_prices_are_those_of_linux_on_shared_machines_in_the_region(desk: Desk) -> None:
    abroad = replace(ON_DEMAND, region="eu-west-1", zone="eu-west-1a")
    await desk.ask(SPOT, abroad)
    assert desk.quote(ON_DEMAND) == Quote(
        per_hour("0.526"), "AWS price list", NOON, timedelta(hours=36)
    )
    assert str(desk.quote(abroad).usd_per_hour) == "$0.62/h"  # type: ignore[union-attr]
    assert desk.quote(replace(ON_DEMAND, instance_type="g4dn.2xlarge")) is None


async def test_prices_on_several_pages_that_contradict_each_other_are_no_price(desk: Desk) -> None:
    agreed, disputed = (replace(ON_DEMAND, instance_type=f"p3.{size}xlarge") for size in (2, 8))
    await desk.ask(agreed, disputed)
    assert desk.quote(agreed).usd_per_hour == per_hour("3.06")  # type: ignore[union-attr]
    assert desk.quote(disputed) is None


async def test_what_is_known_is_not_asked_again_and_what_is_new_at_once(
    desk: Desk, price_list: PriceList
) -> None:
    assert await desk.ask()
    desk.seconds = 299
    assert not await desk.ask()
    assert price_list.num_asked == 1
    assert await desk.ask(SPOT, replace(SPOT, instance_type="g5.xlarge"))
    assert price_list.num_asked == 3
    desk.seconds = 299 + 300
    assert await desk.ask()
    assert price_list.num_asked == 3
    assert desk.quote(SPOT).as_of == desk.now  # type: ignore[union-attr]


async def test_the_last_good_price_stays_and_says_how_old_it_is(
    desk: Desk, ec2: Ec2, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spotrun")
    shortly = Ec2()
    desk.reach_ec2_at(shortly.url)
    assert await desk.ask()
    shortly.end()
    for _ in range(3):
        desk.seconds += 300
        assert not await desk.ask()
    quote = desk.quote(SPOT)
    assert quote is not None
    assert (quote.usd_per_hour, quote.as_of) == (MOTOS_PRICE, NOON)
    assert not quote.is_stale(desk.now)
    assert quote.is_stale(desk.now + timedelta(seconds=1))

    desk.reach_ec2_at(ec2.url)
    desk.seconds += 300
    assert await desk.ask()
    assert desk.quote(SPOT).as_of == desk.now  # type: ignore[union-attr]
    said = [record.message for record in caplog.records if record.name.startswith("spotrun")]
    assert len(said) == 2
    assert said[0].startswith("AWS spot prices in us-east-1: AWS did not answer (")
    assert said[1] == "AWS spot prices in us-east-1: known again"


async def test_a_page_of_a_proxy_is_no_answer(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    async def sign_in(_: web.Request) -> web.Response:
        return web.Response(text="<html><p>Please sign in", content_type="text/html")

    proxy = web.Application()
    proxy.router.add_post("/", sign_in)
    async with TestServer(proxy) as server:
        desk.reach_ec2_at(str(server.make_url("")))
        await desk.ask()

    assert desk.quote(SPOT) is None
    assert desk.quote(ON_DEMAND) is not None
    assert "AWS spot prices in us-east-1: AWS did not answer (" in caplog.text


async def test_aws_is_asked_less_and_less_often_while_it_refuses(
    desk: Desk, price_list: PriceList, caplog: pytest.LogCaptureFixture
) -> None:
    price_list.refuses = True
    asked_at = []
    for second in range(0, 600, 10):
        desk.seconds = float(second)
        before = price_list.num_asked
        await desk.ask()
        if price_list.num_asked > before:
            asked_at.append(second)
    assert asked_at == [0, 30, 90, 210, 450]
    assert desk.quote(ON_DEMAND) is None
    assert desk.quote(SPOT) is not None
    assert "a role that allows ec2:DescribeSpotPriceHistory and pricing:GetProducts" in caplog.text
