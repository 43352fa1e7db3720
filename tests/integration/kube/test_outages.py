"""The control plane itself goes away and comes back."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from spotrun.kube.errors import Ambiguous, KubeError, Retryable
from spotrun.kube.watch.reflector import Timing
from tests.integration.kube.helpers import CONFIG_MAPS, PATIENT, ConfigMap, Space, following


@pytest.fixture
async def control(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster to break; whatever a test leaves broken is mended."""
    yield cluster
    if "kube-apiserver" not in cluster.control.pids():
        await start(cluster)


async def start(cluster: Cluster) -> None:
    cluster.control.start("kube-apiserver")
    await asyncio.to_thread(cluster.control.wait_ready)


async def test_a_killed_api_server_is_waited_for(control: Cluster, space: Space) -> None:
    await space.put("a")
    async with following(space.client, space.selection) as it:
        b = await space.put("b")
        await it.until_said("+a", "+b")
        control.control.kill("kube-apiserver")
        await it.until(lambda: it.reflector.failures >= 3)
        with pytest.raises(Retryable, match="was not sent"):
            await space.put("c")
        await start(control)
        await space.delete(b)
        await space.put("c")
        await it.until_said("+a", "+b", "-b", "+c")


async def test_deletions_during_an_outage_of_the_watch_are_found(
    control: Cluster, space: Space
) -> None:
    """A new API server keeps no history: the version we ask for is really gone (410)."""
    a = await space.put("a")
    async with following(space.client, space.selection) as it:
        control.control.kill("kube-apiserver")
        await it.until(lambda: it.reflector.failures >= 1)
        await start(control)
        await space.delete(a)
        await space.put("b")
        await it.until(lambda: it.names() == {"b"})
        assert it.said in (["+a", "-a", "+b"], ["+a", "+b", "-a"])


async def test_a_frozen_api_server_is_noticed_by_its_silence(
    control: Cluster, space: Space
) -> None:
    timing = Timing(silence_seconds=0.5, relist_seconds=600, backoff=PATIENT.backoff)
    await space.put("a")
    async with following(space.client, space.selection, timing) as it:
        control.control.pause("kube-apiserver")
        try:
            await it.until(lambda: it.reflector.failures >= 1)
        finally:
            control.control.resume("kube-apiserver")
        await space.put("b")
        await it.until_said("+a", "+b")


async def test_a_write_under_way_when_the_server_is_killed_is_never_taken_for_refused(
    control: Cluster, space: Space
) -> None:
    control.control.pause("kube-apiserver")
    write = asyncio.create_task(space.put("a"))
    done, _ = await asyncio.wait({write}, timeout=0.5)
    assert not done
    control.control.kill("kube-apiserver")
    with pytest.raises(KubeError) as lost:
        await write
    assert isinstance(lost.value, Ambiguous | Retryable)
    await start(control)
    written = await space.put("a", x="1")
    assert await space.client.get(CONFIG_MAPS, "a", ConfigMap, namespace=space.namespace) == written
