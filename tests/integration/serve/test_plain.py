import aiohttp
import pytest

from spotrun.serve.metrics import Meter
from spotrun.serve.plain import PlainServer
from tests.serve_builders import job, world


class Health:
    wrong: str | None = None

    def probe(self) -> str | None:
        return self.wrong


async def get(server: PlainServer, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{server.port}{path}") as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_probe_says_what_is_wrong(path: str) -> None:
    healths = {"/healthz": Health(), "/readyz": Health()}
    meter = Meter(lambda: (), lambda: True)
    async with PlainServer(
        meter.registry,
        healthy=healths["/healthz"].probe,
        ready=healths["/readyz"].probe,
        host="127.0.0.1",
        port=0,
    ) as server:
        assert await get(server, path) == (200, "ok\n")
        healths[path].wrong = "caches have not caught up"
        assert await get(server, path) == (503, "caches have not caught up\n")
        healths[path].wrong = None
        assert await get(server, path) == (200, "ok\n")


async def test_metrics() -> None:
    meter = Meter(lambda: [job(world("0-2"))], lambda: True)
    async with PlainServer(
        meter.registry, healthy=lambda: None, ready=lambda: None, host="127.0.0.1", port=0
    ) as server:
        status, text = await get(server, "/metrics")

    assert status == 200
    assert 'spotrun_trainingjob_info{name="job",namespace="team",phase="Running"} 1.0' in text
