"""The release is taken away under a job that trains; the last test of all."""

import asyncio

from devcluster.client import at
from spotrun.api.names import FINALIZER_METERED
from tests.e2e.conftest import Installed
from tests.e2e.installation import SYSTEM, install, uninstall
from tests.e2e.site import Site, is_whole


async def test_nothing_waits_for_an_operator_that_is_gone(site: Site, installed: Installed) -> None:
    await site.train(steps=100_000, workers=2)
    await site.until(is_whole)
    workers = await site.workers()
    assert all(FINALIZER_METERED in pod["metadata"]["finalizers"] for pod in workers)

    await asyncio.to_thread(uninstall, installed.kind)
    try:
        assert await site.kube.list(at("deployments", SYSTEM, group="apps/v1")) == []
        left = await site.workers()
        assert [pod["metadata"]["uid"] for pod in left] == [w["metadata"]["uid"] for w in workers]
        assert not any(pod["metadata"].get("finalizers") for pod in left)

        await site.kubectl("delete", "trainingjob", "tiny-lm", "--timeout=60s")
        gone = ("wait", "--for=delete", "pod", "--selector=spotrun.dev/job", "--timeout=120s")
        await site.kubectl(*gone)
    finally:
        await asyncio.to_thread(install, installed.kind, installed.operator)
