"""The release is taken away under a job that trains; the last test of all."""

import asyncio
import time

import pytest

from devcluster.client import at
from spotrun.api.names import FINALIZER_METERED
from tests.e2e.conftest import Installed
from tests.e2e.installation import SYSTEM, install, uninstall
from tests.e2e.site import JOB, Site

pytestmark = pytest.mark.calm


async def test_nothing_waits_for_an_operator_that_is_gone(site: Site, installed: Installed) -> None:
    await site.start_run()
    await site.until_trains(2)
    workers = await site.workers()
    assert all(FINALIZER_METERED in pod["metadata"]["finalizers"] for pod in workers)

    await asyncio.to_thread(uninstall, installed.cluster)
    try:
        gone_at = time.time()
        assert await site.kube.list(at("deployments", SYSTEM, group="apps/v1")) == []
        await site.until_trains(2, since=gone_at)
        left = await site.workers()
        assert [pod["metadata"]["uid"] for pod in left] == [w["metadata"]["uid"] for w in workers]
        assert not any(pod["metadata"].get("finalizers") for pod in left)

        await site.kubectl("delete", "trainingjob", JOB, "--timeout=180s")
        await site.until_no_workers()
    finally:
        await asyncio.to_thread(install, installed.cluster, installed.operator)
