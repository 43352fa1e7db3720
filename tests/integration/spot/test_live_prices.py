"""Prices that AWS is asked for, in a cluster with its nodes."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from aiohttp.test_utils import TestServer

from spotrun.observe.prices.aws import aws_questions
from spotrun.observe.prices.live import LivePrices
from spotrun.observe.prices.tables import PriceSources
from tests.integration.observe.ec2 import Ec2, credentials
from tests.integration.observe.price_list import PriceList, product
from tests.integration.spot.helpers import add_node, until_pool
from tests.support.cluster.operator_world import World

SPOT = "AWS spot prices"


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2]:
    credentials(monkeypatch)
    server = Ec2()
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", server.url)
    yield server
    server.end()


async def test_a_pool_says_what_aws_asks_for_its_nodes_and_keeps_it_over_a_restart(
    world: World, ec2: Ec2, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = PriceList(product("g4dn.xlarge", "0.5260000000"))
    await add_node(world, "a", instance_type="g4dn.xlarge", zone="us-east-1a")
    async with TestServer(listed.app()) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", str(server.make_url("")))
        async with world.operator(price_sources=PriceSources(live=(asked(),))):
            name = "spot-g4dn-xlarge-us-east-1a"
            pool = await until_pool(world, name, lambda status: SPOT in str(status.get("price")))
    price = pool["status"]["price"]
    assert (price["usdPerHour"], price["source"]) == ("0.00001", SPOT)

    ec2.end()
    async with world.operator(price_sources=PriceSources(live=(asked(),))):
        await add_node(world, "b", instance_type="g4dn.xlarge", zone="us-east-1a")
        pool = await until_pool(world, name, lambda status: status["nodes"] == 2)
    kept = ("usdPerHour", "source", "asOf", "recent")
    assert [pool["status"]["price"][key] for key in kept] == [price[key] for key in kept]


def asked() -> LivePrices:
    return LivePrices(
        ["us-east-1"],
        aws_questions(lambda: datetime.now(UTC)),
        clock=time.monotonic,
        roll=lambda: 0.0,
    )
