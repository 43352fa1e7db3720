"""Live prices of Azure over HTTP, from a process that speaks the format of its public list."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_history import Quote
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import Catalog
from spotrun.observe.prices.azure import azure_questions
from spotrun.observe.prices.live import LivePrices
from tests.integration.observe.azure_list import A100, AzureList
from tests.unit.money.builders import per_hour

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SPOT = Offering(A100, Capacity.SPOT, "eastus", "eastus-1")
ON_DEMAND = replace(SPOT, capacity=Capacity.ON_DEMAND)
REGIONS = ("eastus", "westeurope", "sick", "strange", "huge", "elsewhere")


class Desk:
    """The prices as an operator asks for them, and time."""

    def __init__(self, url: str) -> None:
        self.seconds = 0.0
        self.prices = LivePrices(
            REGIONS,
            azure_questions(self._wall, url=url),
            clock=lambda: self.seconds,
            roll=lambda: 1.0,
        )

    def _wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    async def ask(self, *wanted: Offering) -> bool:
        return await self.prices.refresh(wanted or (SPOT,))

    def quote(self, wanted: Offering) -> Quote | None:
        return Catalog(self.prices.tables()).quote(wanted)


@pytest.fixture(scope="module")
def azure() -> Iterator[AzureList]:
    server = AzureList()
    yield server
    server.end()


@pytest.fixture
def desk(azure: AzureList) -> Desk:
    return Desk(azure.url)


@pytest.mark.parametrize(
    ("wanted", "usd"),
    [
        pytest.param(ON_DEMAND, "3.673", id="what holds now, for Linux, by the hour"),
        pytest.param(SPOT, "1.4692", id="spot"),
        pytest.param(replace(ON_DEMAND, region="westeurope"), "4.408", id="another region"),
    ],
)
async def test_prices_are_those_of_the_region(desk: Desk, wanted: Offering, usd: str) -> None:
    assert desk.quote(wanted) is None
    assert await desk.ask(wanted)
    source, good_for = "Azure retail prices", timedelta(hours=3)
    assert desk.quote(wanted) == Quote(per_hour(usd), source, NOON, good_for)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(replace(SPOT, region="westeurope"), id="no spot is sold there"),
        pytest.param(
            replace(ON_DEMAND, instance_type="Standard_Free"), id="a price of nothing or less"
        ),
        pytest.param(replace(ON_DEMAND, instance_type="Standard_Disputed"), id="two prices"),
        pytest.param(replace(ON_DEMAND, instance_type="box' or '1' eq '1"), id="a name that asks"),
        pytest.param(replace(ON_DEMAND, region="northeurope"), id="a region that is not named"),
    ],
)
async def test_what_is_not_known_has_no_price_and_spoils_nothing(
    desk: Desk, wanted: Offering
) -> None:
    await desk.ask(wanted, ON_DEMAND)
    assert desk.quote(wanted) is None
    assert desk.quote(ON_DEMAND) is not None


@pytest.mark.parametrize(
    ("region", "words"),
    [
        ("sick", "127.0.0.1 answers 503: the service is unavailable"),
        ("strange", "the answer is no list of prices"),
        ("huge", "the answer has more than 16777216 bytes"),
        ("elsewhere", "the next page is at another host, example.com"),
    ],
)
async def test_an_answer_that_is_none_changes_nothing_and_is_said_once(
    desk: Desk, region: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spotrun")
    wanted = replace(ON_DEMAND, region=region)
    assert not await desk.ask(wanted)
    desk.seconds += 60
    assert not await desk.ask(wanted)
    said = [record.message for record in caplog.records if record.name.startswith("spotrun")]
    assert len(said) == 1
    assert words in said[0]
    assert said[0].endswith("; the last prices stay")


async def test_a_cloud_that_cannot_be_reached_keeps_its_last_prices(desk: Desk) -> None:
    server = AzureList()
    away = Desk(server.url)
    assert await away.ask(ON_DEMAND)
    server.end()
    away.seconds += 3601
    assert not await away.ask(ON_DEMAND)
    quote = away.quote(ON_DEMAND)
    assert quote is not None
    assert quote.as_of == NOON


async def test_what_is_known_is_asked_again_after_an_hour(desk: Desk) -> None:
    assert await desk.ask()
    desk.seconds += 3599
    assert not await desk.ask()
    desk.seconds += 1
    assert await desk.ask()
