"""A leader that is frozen for longer than its lease lasts, and then goes on where it was."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.scripted import FOREVER, Scripted
from spotrun.act.writes import AT_ONCE
from tests.faults.proxy import WRITES, FaultProxy
from tests.faults.rules import Rule
from tests.integration.process.helpers import Replica, launching, token, write_kubeconfig
from tests.support.cluster.operator_world import World

NUM_WORKERS = 100
ROOM = {"pods": "1000", "cpu": "2000", "memory": "2000Gi"}


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(cluster.admin.server, cluster.admin.ssl_context()) as proxy:
        yield proxy


async def test_a_frozen_leader_writes_nothing_once_another_one_leads(
    world: World, cluster: Cluster, account: Path, proxy: FaultProxy, tmp_path: Path
) -> None:
    await world.nodes.add("a", capacity=ROOM, runtime=Scripted(FOREVER))
    behind = write_kubeconfig(cluster, token(cluster), tmp_path / "behind", proxy.url)
    (tmp_path / "other").mkdir()
    async with (
        launching(world, behind, tmp_path) as first_launcher,
        launching(world, account, tmp_path / "other") as second_launcher,
    ):
        first = await first_launcher.start()
        await first.until_leading()
        second = await second_launcher.start()
        await second.until_logged("agents connect to")
        await _freeze_amid_creations(world, proxy, first)
        await second.until_leading()
        await world.until(lambda: _has_all(world))
        await world.patch_job({"suspend": True})
        await world.until_no_pods()
        settled = (await world.job())["status"]["settled"]
        sent = len(proxy.log)

        first.process.send_signal(signal.SIGCONT)
        await first.until_logged("this replica is no longer the leader")

        late = [one for one in proxy.log[sent:] if one.verb in WRITES]
        assert [f"{one.verb} {one.path}" for one in late if "/leases" not in one.path] == []
        assert await world.pods() == []
        assert (await world.job())["status"]["settled"] == settled == f"0-{NUM_WORKERS - 1}"


async def _freeze_amid_creations(world: World, proxy: FaultProxy, leader: Replica) -> None:
    """Freeze while some workers are made, some asked for, and most are not.

    All requests that may be made at once are under way then, so none is just between the check of
    the lead and its first byte: such a request is still sent by the process that wakes up.
    """

    def is_real(query: object) -> bool:
        return "dryRun" not in str(query)

    # Pods 16 to 31 are created together: of these, so many are held as there are slots.
    rule = Rule("hold", verb="create", path="/pods$", nth=20, times=AT_ONCE, query=is_real)
    proxy.inject(rule)
    await world.create_job(workers={"min": 1, "max": NUM_WORKERS, "replicas": NUM_WORKERS})
    async with asyncio.timeout(30):
        await rule.struck.wait()
    leader.process.send_signal(signal.SIGSTOP)
    proxy.heal(rule)


async def _has_all(world: World) -> bool:
    return len(await world.pods()) == NUM_WORKERS
