import time

import aiohttp
import pytest

from spotrun.http.listener import Listener
from spotrun.http.probes import health, plain_server
from spotrun.metrics.exposition import Exposition
from spotrun.metrics.registry import Meter
from tests.integration.agents.helpers import HOST
from tests.support.jobs.published_jobs import job, world


class Health:
    wrong: str | None = None

    def probe(self) -> str | None:
        return self.wrong


async def ask(server: Listener, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{HOST}:{server.port}{path}") as response,
    ):
        assert response.headers["Server"] == "spotrun"
        return response.status, await response.text()


async def test_a_probe_says_what_is_wrong() -> None:
    here = Health()
    async with plain_server({"/readyz": health(here.probe)}, host=HOST, port=0) as server:
        assert await ask(server, "/readyz") == (200, "ok\n")
        here.wrong = "caches have not caught up"
        assert await ask(server, "/readyz") == (503, "caches have not caught up\n")
        here.wrong = None
        assert await ask(server, "/readyz") == (200, "ok\n")


async def test_metrics() -> None:
    meter = Meter(lambda: [job(world("0-2"))], lambda: True)
    page = Exposition(meter.registry, time.monotonic).page
    async with plain_server({"/metrics": page}, host=HOST, port=0) as server:
        status, text = await ask(server, "/metrics")

    assert status == 200
    assert 'spotrun_trainingjob_info{name="job",namespace="team",phase="Running"} 1.0' in text


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("HEAD", "/healthz", (200, "")),
        ("POST", "/healthz", (405, "use GET here\n")),
        ("GET", "/", (404, "no such page: use /healthz\n")),
    ],
)
async def test_other_requests(method: str, path: str, answer: tuple[int, str]) -> None:
    async with plain_server({"/healthz": health(lambda: None)}, host=HOST, port=0) as server:
        assert await ask(server, path, method) == answer
