"""The chart on a real cluster: its own test, and an upgrade under a job that trains."""

import asyncio
import time

import pytest

from tests.e2e.conftest import Installed
from tests.e2e.installation import RELEASE, install, run_helm
from tests.e2e.site import Site, is_whole
from tests.integration.trainer.traces import differences
from tests.support.jobs.statuses import failures_of

pytestmark = pytest.mark.calm


def test_helm_finds_its_release_ready(installed: Installed) -> None:
    said = run_helm(installed.cluster, "test", RELEASE, "--logs", "--timeout=120s")

    assert "ready: ok" in said
    assert "agents are served with TLSv1.3" in said


async def test_an_upgrade_restarts_no_job(
    site: Site, installed: Installed, alone: dict[int, str]
) -> None:
    await site.start_run()
    await site.until_trains(2)
    before = await site.until(is_whole)
    workers = [pod["metadata"]["uid"] for pod in await site.workers()]

    changes = ("--set=log.level=debug", f"--set=trainerImage={installed.trainer}")
    await asyncio.to_thread(install, installed.cluster, installed.operator, *changes)

    upgraded_at = time.time()
    await site.until_trains(2, since=upgraded_at)
    assert [pod["metadata"]["uid"] for pod in await site.workers()] == workers
    after = await site.status()
    assert after["world"]["number"] == before["world"]["number"]
    assert failures_of(after) == 0
    assert differences(await site.trace(), alone) == set()
