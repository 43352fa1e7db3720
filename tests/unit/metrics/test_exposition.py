"""What a Prometheus is answered, and who waits for it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.registry import Collector
from typing_extensions import override

from spotrun.metrics.exposition import SHARED_SECONDS, Exposition
from tests.support.monitoring.every_metric import full_meter

OPEN_METRICS = "application/openmetrics-text;version=1.0.0"


class Families(Collector):
    """Three of them, whose values say how often they were collected."""

    def __init__(self) -> None:
        self.collected = 0

    @override
    def collect(self) -> Iterator[Metric]:
        self.collected += 1
        for name in "abc":
            yield GaugeMetricFamily(name, "Told.", value=self.collected)


class Scrapes:
    """Who asks, and when."""

    def __init__(self) -> None:
        self.families = Families()
        self.now = 100.0
        registry = CollectorRegistry()
        registry.register(self.families)
        self._exposition = Exposition(registry, lambda: self.now)

    async def ask(self, accept: str = "") -> bytes:
        return await asked(self._exposition, accept)


async def asked(exposition: Exposition, accept: str = "") -> bytes:
    answer = await exposition.page(make_mocked_request("GET", "/metrics", {"Accept": accept}))
    assert isinstance(answer.body, bytes)
    return answer.body


@pytest.mark.parametrize(
    ("accept", "generate"), [("", generate_latest), (OPEN_METRICS, generate_open_metrics)]
)
async def test_it_is_what_the_library_would_render_at_once(accept: str, generate: Any) -> None:
    registry = full_meter().registry
    assert generate(registry) == await asked(Exposition(registry, lambda: 0.0), accept)


async def test_others_have_a_turn_after_each_family() -> None:
    scrapes, turns = Scrapes(), 0
    rendering = asyncio.create_task(scrapes.ask())
    while not rendering.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 3


async def test_who_asks_within_a_second_is_answered_the_same() -> None:
    scrapes = Scrapes()
    first = await scrapes.ask()
    scrapes.now += SHARED_SECONDS - 0.01
    assert await scrapes.ask() is first
    scrapes.now += 0.01
    assert await scrapes.ask() != first
    assert scrapes.families.collected == 2


async def test_who_asks_for_another_format_is_answered_in_that() -> None:
    scrapes = Scrapes()
    plain, open_metrics = await scrapes.ask(), await scrapes.ask(OPEN_METRICS)
    assert (plain.endswith(b"# EOF\n"), open_metrics.endswith(b"# EOF\n")) == (False, True)


async def test_a_crowd_that_asks_at_once_is_rendered_for_once() -> None:
    scrapes = Scrapes()
    answers = await asyncio.gather(*(scrapes.ask() for _ in range(50)))
    assert (set(answers), scrapes.families.collected) == ({answers[0]}, 1)


async def test_who_hangs_up_leaves_the_next_its_turn() -> None:
    scrapes = Scrapes()
    gone, waits = asyncio.create_task(scrapes.ask()), asyncio.create_task(scrapes.ask())
    await asyncio.sleep(0)
    gone.cancel()
    assert b"a 2.0\n" in await waits
