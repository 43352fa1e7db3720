"""Live prices of GCP over HTTP, from a process that speaks the formats of its servers."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_history import Quote
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import Catalog
from spotrun.observe.prices.gcp import gcp_questions
from spotrun.observe.prices.live import LivePrices
from tests.integration.observe.gcp_catalog import GcpCatalog
from tests.unit.money.builders import per_hour

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SPOT = Offering("a2-highgpu-1g", Capacity.SPOT, "us-central1", "us-central1-a")
ON_DEMAND = replace(SPOT, capacity=Capacity.ON_DEMAND)


class Desk:
    """The prices as an operator asks for them, and time."""

    def __init__(self, url: str) -> None:
        self.seconds = 0.0
        self.prices = LivePrices(
            ["us-central1", "us-east1", "europe-west4"],
            gcp_questions(self._wall, lambda: self.seconds, url=url),
            clock=lambda: self.seconds,
            roll=lambda: 1.0,
        )

    def _wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    async def ask(self, *wanted: Offering) -> bool:
        return await self.prices.refresh(wanted)

    def quote(self, wanted: Offering) -> Quote | None:
        return Catalog(self.prices.tables()).quote(wanted)


@pytest.fixture
def gcp(monkeypatch: pytest.MonkeyPatch) -> Iterator[GcpCatalog]:
    server = GcpCatalog()
    monkeypatch.setenv("GCE_METADATA_HOST", server.host)
    yield server
    server.end()


@pytest.fixture
def desk(gcp: GcpCatalog) -> Desk:
    return Desk(gcp.url)


@pytest.mark.parametrize(
    ("wanted", "usd"),
    [
        # 12 cores, 85 GiB and a GPU.
        pytest.param(ON_DEMAND, "3.673385", id="on demand"),
        pytest.param(SPOT, "1.3957", id="spot"),
        pytest.param(replace(ON_DEMAND, instance_type="a2-ultragpu-1g"), "5.026622", id="80 GB"),
        pytest.param(replace(ON_DEMAND, region="us-east1"), "3.673385", id="another region"),
    ],
)
async def test_a_node_costs_what_its_parts_cost_in_its_region(
    desk: Desk, wanted: Offering, usd: str
) -> None:
    assert await desk.ask(wanted)
    quote = Quote(per_hour(usd), "GCP price catalog", NOON, timedelta(hours=36))
    assert desk.quote(wanted) == quote


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(replace(ON_DEMAND, instance_type="n2-standard-8"), id="two prices of memory"),
        pytest.param(replace(ON_DEMAND, instance_type="g2-standard-4"), id="memory by the month"),
        pytest.param(replace(ON_DEMAND, region="europe-west4"), id="only its cores have a price"),
        pytest.param(replace(SPOT, instance_type="a2-ultragpu-1g"), id="no GPU has one"),
        pytest.param(replace(ON_DEMAND, instance_type="n1-standard-8"), id="parts it hides"),
    ],
)
async def test_what_is_not_known_of_all_parts_is_no_price(desk: Desk, wanted: Offering) -> None:
    await desk.ask(wanted, ON_DEMAND)
    assert desk.quote(wanted) is None
    assert desk.quote(ON_DEMAND) is not None


async def test_the_catalog_is_read_once_for_all_regions_and_again_after_half_a_day(
    desk: Desk, gcp: GcpCatalog
) -> None:
    await desk.ask(ON_DEMAND, replace(ON_DEMAND, region="us-east1"))
    await desk.ask(replace(ON_DEMAND, instance_type="a2-highgpu-2g"))
    assert await _said(gcp, "num-read") == "1"
    desk.seconds += 12 * 3600
    await desk.ask(ON_DEMAND)
    assert await _said(gcp, "num-read") == "2"


async def test_a_catalog_that_is_refused_keeps_its_last_prices_and_says_what_to_do(
    desk: Desk, gcp: GcpCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spotrun")
    assert await desk.ask(ON_DEMAND)
    await _said(gcp, "close")
    desk.seconds += 12 * 3600
    assert not await desk.ask(ON_DEMAND)
    assert desk.quote(ON_DEMAND) is not None
    assert "GCP price catalog in us-central1: 127.0.0.1 answers 403" in caplog.text
    assert "Cloud Billing API has not been used in project" in caplog.text


async def test_where_there_is_no_identity_it_is_said(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    assert not await desk.ask(ON_DEMAND)
    assert "no token from the metadata server: no answer (" in caplog.text


async def _said(gcp: GcpCatalog, what: str) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{gcp.host}/{what}") as response,
    ):
        return await response.text()
