"""The alerts as they are shipped, over an operator that is in all the trouble they are about."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from spotrun.http.tls import OwnSecret
from spotrun.kube.rest.access import Access, Credentials
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from spotrun.policies.scaling import idle
from spotrun.runtime.controller import Controller
from tests.faults.proxy import FaultProxy
from tests.integration.monitoring.helpers import ALERTS
from tests.integration.monitoring.server import Prometheus, scraping
from tests.integration.monitoring.troubles import a_job_that_trains, all_troubles
from tests.support.cluster.kopf_front import fronted
from tests.support.cluster.operator_world import World

ALERTS_SECONDS = 240

HASTE = 900
"""Two hours pass in eight seconds for the alerts that compare with long ago."""
HASTENED = {"TrainingJobNoProgress", "TrainingJobCheckpointStale"}
CALM = {"SpotrunQueueStuck": "> 60", "TrainingJobWaitsLong": "> 14400"}
"""Nothing waits for long here. Without their thresholds they say how long each has waited."""
AFTERWARDS = "SpotrunNotLeading"
"""The alert that fires when the operator is gone."""
TOLD = {alert.stem for alert in ALERTS} - HASTENED - CALM.keys() - {AFTERWARDS}


async def test_alerts_are_silent_while_all_is_well_and_each_tells_of_its_trouble(
    world: World, prometheus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = world.cluster.admin
    asked = {alert.stem: _asked(alert) for alert in ALERTS}
    last = {AFTERWARDS: asked.pop(AFTERWARDS)}
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(admin.server, admin.ssl_context()))
        async with operating(world, proxy) as operator:
            pods = {"spotrun-0": f"{world.host}:{operator.plain.port}"}
            host = world.cluster.block.pod_address()
            server = await stack.enter_async_context(
                scraping(prometheus, tmp_path, host=host, pods=pods, rules=ALERTS)
            )
            await a_job_that_trains(world)
            await world.until(lambda: _is_silent(server))
            monkeypatch.setattr(idle, "IDLE_SECONDS", 0.5)  # of the job that makes no step
            await all_troubles(world, proxy, server)
            assert await _silent_ones(server, asked) == set()
            told = await world.until(lambda: _told(server))
        assert await _silent_ones(server, last) == set()
        rules = await server.rules()
    assert {rule["name"]: rule["health"] for rule in rules} == dict.fromkeys(asked | last, "ok")
    # What Go's templates write where there is nothing to write.
    assert [text for text in told if re.search(r"<no value>|<error|%!", text)] == []


@asynccontextmanager
async def operating(world: World, proxy: FaultProxy) -> AsyncIterator[Controller]:
    """The operator behind a proxy that can keep it from writing."""

    async def load() -> Access:
        return Access(proxy.url)

    async with Transport(Credentials(load)) as transport:
        client = Client(transport, field_manager="spotrun")
        source = OwnSecret(client, namespace=world.namespace)
        make = partial(Controller, world.settings(), client, source)
        async with fronted(make) as controller:
            yield controller


def _asked(alert: Path) -> str:
    """What an alert asks for; in haste, or without its threshold, where it has to be."""
    (group,) = yaml.safe_load(alert.read_text())["groups"]
    (rule,) = group["rules"]
    expr: str = rule["expr"]
    if alert.stem in HASTENED:
        return re.sub(r"\b(\d+)([mh])\b", _in_haste, expr)
    return expr.replace(CALM[alert.stem], ">= 0") if alert.stem in CALM else expr


def _in_haste(duration: re.Match[str]) -> str:
    seconds = int(duration[1]) * {"m": 60, "h": 3600}[duration[2]]
    return f"{seconds * 1000 // HASTE}ms"


async def _is_silent(server: Prometheus) -> bool:
    """It has been evaluated, and found nothing to tell."""
    rules = await server.rules()
    return all(rule["health"] == "ok" and not rule["alerts"] for rule in rules)


async def _silent_ones(server: Prometheus, asked: Mapping[str, str]) -> set[str]:
    """Ask until every alert has had something to tell; those that had not when patience ends."""
    left = dict(asked)
    loop = asyncio.get_running_loop()
    end = loop.time() + ALERTS_SECONDS
    while left and loop.time() < end:
        left = {name: expr for name, expr in left.items() if not await server.query(expr)}
        await asyncio.sleep(0.5)
    return set(left)


async def _told(server: Prometheus) -> list[str]:
    """What people would read, once each has something to say."""
    alerts: list[dict[str, Any]] = await server.alerts()
    if not {alert["labels"]["alertname"] for alert in alerts} >= TOLD:
        return []
    return [text for alert in alerts for text in alert["annotations"].values()]
