"""The chart on a real cluster: its own test, and an upgrade under a job that trains."""

import asyncio

from tests.e2e.conftest import Installed
from tests.e2e.installation import RELEASE, install, run_helm
from tests.e2e.site import Site, durable_step, failures_of, is_whole


def test_helm_finds_its_release_ready(installed: Installed) -> None:
    said = run_helm(installed.kind, "test", RELEASE, "--logs", "--timeout=120s")

    assert "ready: ok" in said
    assert "agents are served with TLSv1.3" in said


async def test_an_upgrade_restarts_no_job(site: Site, installed: Installed) -> None:
    await site.train(steps=1_500, workers=2, every="5s")
    before = await site.until(lambda s: is_whole(s) and durable_step(s) > 0)
    workers = [pod["metadata"]["uid"] for pod in await site.workers()]

    louder = "--set=log.level=debug"
    await asyncio.to_thread(install, installed.kind, installed.operator, louder)

    assert [pod["metadata"]["uid"] for pod in await site.workers()] == workers
    ended = await site.until_end()
    assert ended["phase"] == "Succeeded", ended["message"]
    assert ended["world"]["generation"] == before["world"]["generation"]
    assert failures_of(ended) == 0
